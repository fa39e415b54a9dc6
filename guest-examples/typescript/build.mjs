/**
 * Builds the agent: `npm run build` makes build/NAME.wasm, NAME being the one in agent.toml. esbuild makes one file of
 * src/agent.ts (or src/agent.js) and what it imports, and componentize-qjs a component of that.
 */

import { existsSync, readFileSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { componentize } from "componentize-qjs";
import { build } from "esbuild";

const name = /^name\s*=\s*"([^"]+)"/m.exec(readFileSync("agent.toml", "utf8"))[1];
const entry = ["src/agent.ts", "src/agent.js"].find(existsSync);
const witPath = ["wit", "../../wit"].find(existsSync);

const bundle = await build({
  entryPoints: [entry],
  bundle: true,
  format: "esm",
  target: "es2022",
  platform: "neutral",
  mainFields: ["module", "main"],
  external: ["hostelry:*"],
  write: false,
}).catch(() => process.exit(1)); // esbuild has said why
const jsSource = bundle.outputFiles[0].text;

await mkdir("build", { recursive: true });
const { component } = await componentize({ witPath, world: "agent", jsSource, jsPath: entry, sync: true });
await writeFile(`build/.${name}.wasm`, component);
await rename(`build/.${name}.wasm`, `build/${name}.wasm`);
console.log(`build/${name}.wasm is built`);
