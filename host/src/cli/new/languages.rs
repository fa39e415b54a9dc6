//! The languages that `hostelry new` knows: one entry each. The build script embeds the files of each entry with a folder
//! in `host/templates`, so this file depends on nothing.

/// A language, and what a new agent in it is made of.
#[derive(Debug)]
pub(crate) struct Language {
    /// What `--lang` takes, and the folder in `host/templates`.
    pub(crate) name: &'static str,
    /// Other words for it that `--lang` takes.
    pub(crate) also: &'static [&'static str],
    /// Its name for people.
    pub(crate) title: &'static str,
    /// What one needs installed.
    pub(crate) needs: &'static str,
    /// What is put in verbatim from elsewhere in the repository: a path in the new folder, and the file or folder that
    /// goes there. A file of the template with the same path goes before it.
    pub(crate) extra: &'static [(&'static str, &'static str)],
}

/// The contract, which every language gets.
pub(crate) const CONTRACT: (&str, &str) = ("wit", "wit");

/// All of them, in the order in which they are listed.
pub(crate) const LANGUAGES: &[Language] = &[
    Language {
        name: "rust",
        also: &["rs"],
        title: "Rust",
        needs: "Rust 1.85 or later with its wasm32-wasip2 target (rustup target add wasm32-wasip2)",
        extra: &[("hostelry-agent", "sdk/rust")],
    },
    Language {
        name: "python",
        also: &["py"],
        title: "Python",
        needs: "python3, 3.10 or later, with venv",
        extra: &[
            ("hostelry.py", "guest-examples/python/hostelry.py"),
            ("build.py", "guest-examples/python/build.py"),
            ("requirements.txt", "guest-examples/python/requirements.txt"),
            (".gitignore", "guest-examples/python/.gitignore"),
        ],
    },
    Language {
        name: "typescript",
        also: &["ts", "javascript", "js"],
        title: "TypeScript or JavaScript",
        needs: "node, 20 or later, with npm",
        extra: &[
            ("src/hostelry.ts", "guest-examples/typescript/src/hostelry.ts"),
            ("src/contract.d.ts", "guest-examples/typescript/src/contract.d.ts"),
            ("test/host.ts", "guest-examples/typescript/test/host.ts"),
            ("build.mjs", "guest-examples/typescript/build.mjs"),
            ("test.mjs", "guest-examples/typescript/test.mjs"),
            ("tsconfig.json", "guest-examples/typescript/tsconfig.json"),
            (".gitignore", "guest-examples/typescript/.gitignore"),
        ],
    },
    Language {
        name: "go",
        also: &["golang"],
        title: "Go",
        needs: "make, and Go 1.24 or later, or python3 with venv to fetch it",
        extra: &[
            ("hostelry", "guest-examples/go/hostelry"),
            ("Makefile", "guest-examples/go/Makefile"),
            ("go.mod", "guest-examples/go/go.mod"),
            (".gitignore", "guest-examples/go/.gitignore"),
        ],
    },
    Language {
        name: "c",
        also: &[],
        title: "C",
        needs: "make, and python3 with venv",
        extra: &[
            ("hostelry.h", "guest-examples/c/hostelry.h"),
            ("Makefile", "guest-examples/c/Makefile"),
            (".gitignore", "guest-examples/c/.gitignore"),
        ],
    },
    Language {
        name: "zig",
        also: &[],
        title: "Zig",
        needs: "make, and python3 with venv",
        extra: &[
            ("hostelry.zig", "guest-examples/zig/hostelry.zig"),
            ("Makefile", "guest-examples/zig/Makefile"),
            (".gitignore", "guest-examples/zig/.gitignore"),
        ],
    },
];
