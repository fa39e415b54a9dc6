/** Runs the tests: `npm test`. esbuild puts test/host.ts in the place of the contract's imports. */

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const tests = readdirSync("test").filter((file) => /\.test\.[jt]s$/.test(file));
const hostIsFake = {
  name: "host-is-fake",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^hostelry:/ }, () => ({ path: new URL("test/host.ts", import.meta.url).pathname })),
};
await build({
  entryPoints: tests.map((file) => `test/${file}`),
  bundle: true,
  format: "esm",
  platform: "node",
  outdir: "build/test",
  outExtension: { ".js": ".mjs" },
  plugins: [hostIsFake],
}).catch(() => process.exit(1)); // esbuild has said why
const built = tests.map((file) => `build/test/${file.replace(/\.[jt]s$/, ".mjs")}`);
process.exit(spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1);
