//! Agents written in the text format, for what no toolchain would make: their core modules stand in the test that wants
//! them.

/// The types that an agent's `handle` is made of.
fn types(version: &str) -> String {
    format!(
        r#"
  (import "hostelry:agent/types@{version}" (instance $types
    (type $t0 (enum "user" "agent")) (export "role" (type $role (eq $t0)))
    (type $t1 (record (field "url" string) (field "media-type" (option string))))
    (export "file" (type $file (eq $t1)))
    (type $t2 (variant (case "text" string) (case "image" string) (case "file" $file)))
    (export "content" (type $content (eq $t2)))
    (type $t3 (record (field "role" $role) (field "content" $content)))
    (export "message" (type $message (eq $t3)))
    (type $t4 (record (field "session-id" string) (field "turn-id" string) (field "user-id" (option string))
                      (field "input" (list $message))))
    (export "request" (type $request (eq $t4)))))
  (alias export $types "request" (type $request))"#
    )
}

/// The core module that holds the memory, and an allocator that gives nothing back.
const STORE: &str = r#"
  (core module $store
    (memory (export "memory") 4)
    (global $top (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.set $top (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.get $top)
      (global.set $top (i32.add (global.get $top) (local.get 3)))))
  (core instance $store (instantiate $store))
  (alias core export $store "memory" (core memory $memory))
  (alias core export $store "realloc" (core func $realloc))"#;

/// An agent. `before` stands before the module that handles turns (imports, other modules); `fields` are that module's
/// own; `body` is what `handle` does, with `with` the arguments of its instantiation. It answers with nothing.
pub fn agent(before: &str, with: &str, fields: &str, body: &str) -> Vec<u8> {
    agent_of("0.1.0", before, with, fields, body)
}

/// The same, built against any version of the contract.
pub fn agent_of(version: &str, before: &str, with: &str, fields: &str, body: &str) -> Vec<u8> {
    let (types, store) = (types(version), STORE);
    let text = format!(
        r#"(component {types} {store} {before}
  (core module $main
    (import "store" "memory" (memory 1))
    {fields}
    (func (export "handle") (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
      {body}
      (i32.store8 (i32.const 16) (i32.const 0))
      (i32.const 16)))
  (core instance $main (instantiate $main (with "store" (instance $store)) {with}))
  (func $handle (param "request" $request) (result (result (error string)))
    (canon lift (core func $main "handle") (memory $memory) (realloc $realloc)))
  (instance $handler (export "handle" (func $handle)))
  (export "hostelry:agent/handler@{version}" (instance $handler)))"#
    );
    parse(&text)
}

/// Any text as bytes.
pub fn parse(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A component with one more custom section of `size` bytes, which changes nothing of what it does.
pub fn padded(mut component: Vec<u8>, size: usize) -> Vec<u8> {
    component.push(0);
    // The section's size in LEB128, the length of its name, and the name, are part of it.
    let mut rest = size + 2;
    while rest >= 0x80 {
        component.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    component.push(u8::try_from(rest).unwrap());
    component.extend([1, b'x']);
    component.resize(component.len() + size, 0);
    component
}
