//! Group `workspace`: text files that live as long as their session, in the host's store, never on its file system.

use serde_json::{Value, json};

use super::schema::ToolSpec;
use crate::{
    bindings::types::ToolError,
    capabilities::{Tally, TurnCtx},
    limit::Limit,
    store::{FileError, PATH_BYTES_MAX},
    text,
};

/// How much of a client's working folder counts, in bytes.
const LABEL_BYTES_MAX: usize = 256;

/// The tools.
pub const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "WriteFile",
        description: "Write a text file of the session's workspace, over the old one if there is one.",
        parameters: r#"{"type":"object","properties":{
            "filePath":{"type":"string","description":"from the workspace's root if it begins with a slash, else from the working folder"},
            "content":{"type":"string","description":"the whole new text; empty if left out"}
            },"required":["filePath"],"additionalProperties":false}"#,
    },
    ToolSpec {
        name: "ReadFile",
        description: "Read a text file of the session's workspace.",
        parameters: r#"{"type":"object","properties":{
            "filePath":{"type":"string","description":"from the workspace's root if it begins with a slash, else from the working folder"}
            },"required":["filePath"],"additionalProperties":false}"#,
    },
    ToolSpec {
        name: "ListFiles",
        description: "List the files of a folder of the session's workspace and of the folders in it.",
        parameters: r#"{"type":"object","properties":{
            "path":{"type":"string","description":"the folder; the working folder if left out"}
            },"additionalProperties":false}"#,
    },
    ToolSpec {
        name: "DeleteFile",
        description: "Delete a file of the session's workspace.",
        parameters: r#"{"type":"object","properties":{
            "filePath":{"type":"string","description":"from the workspace's root if it begins with a slash, else from the working folder"}
            },"required":["filePath"],"additionalProperties":false}"#,
    },
];

/// Runs a tool whose arguments fit its schema.
pub(super) async fn run(
    name: &str,
    args: &Value,
    ctx: &TurnCtx,
    work_dir: Option<&str>,
    tally: &Tally,
) -> Result<Value, ToolError> {
    let (session, store) = (&ctx.session, &ctx.store);
    let told = |error| told(error, tally);
    let given = |key: &str| args.get(key).and_then(Value::as_str);
    let file = || file_path(work_dir, given("filePath").unwrap_or_default()).map_err(ToolError::InvalidArgs);
    match name {
        "WriteFile" => {
            let content = given("content").unwrap_or_default();
            store.file_write(session, file()?, content.to_owned()).await.map_err(told)?;
            Ok(json!({ "status": "written", "bytes": content.len() }))
        }
        "ReadFile" => {
            let content = store.file_read(session, file()?).await.map_err(told)?;
            Ok(json!({ "content": content }))
        }
        "ListFiles" => {
            let folder = folder_path(work_dir, given("path").unwrap_or_default()).map_err(ToolError::InvalidArgs)?;
            let files = store.file_list(session, folder).await.map_err(told)?;
            let files: Vec<Value> =
                files.iter().map(|file| json!({ "path": file.path, "bytes": file.bytes })).collect();
            Ok(json!({ "files": files }))
        }
        "DeleteFile" => {
            store.file_delete(session, file()?).await.map_err(told)?;
            Ok(json!({ "status": "deleted" }))
        }
        other => Err(ToolError::Unknown(format!("there is no tool `{other}` in this turn"))),
    }
}

/// The error as the guest gets it; a bound that was run into is noted.
fn told(error: FileError, tally: &Tally) -> ToolError {
    match error {
        FileError::NotFound => return ToolError::InvalidArgs(format!("filePath: {error}")),
        FileError::TooLarge | FileError::Full => tally.strike(Limit::Workspace),
        FileError::TenantFull => tally.strike(Limit::TenantFiles),
        FileError::Failed => {}
    }
    ToolError::Failed(error.to_string())
}

/// A file's path from the workspace's root.
fn file_path(work_dir: Option<&str>, path: &str) -> Result<String, String> {
    if path.is_empty() || path.ends_with('/') {
        return Err("filePath: names no file".to_owned());
    }
    let path = resolve(work_dir, path, "filePath")?;
    if path == "/" { Err("filePath: names no file".to_owned()) } else { Ok(path) }
}

/// A folder's path from the workspace's root, with a slash behind it.
fn folder_path(work_dir: Option<&str>, path: &str) -> Result<String, String> {
    let path = resolve(work_dir, path, "path")?;
    Ok(if path == "/" { path } else { format!("{path}/") })
}

/// The folders of the client's working folder. It is a label of a place that is not here (`C:\\Users\\me` as well as
/// `/home/me`), so it never fails: what no path here may hold becomes `_`, one that would lead above the root is the
/// root, and an overlong one is cut, so that there is room for a file's own path.
fn label(work_dir: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for part in text::head(work_dir, LABEL_BYTES_MAX).split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part.chars().map(|c| if is_refused(c) { '_' } else { c }).collect()),
        }
    }
    parts
}

/// Whether no path may hold this character.
fn is_refused(c: char) -> bool {
    c.is_control() || c == '\\'
}

/// `path` from the root, in which no argument leads above the root.
fn resolve(work_dir: Option<&str>, path: &str, argument: &str) -> Result<String, String> {
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("{argument}: is longer than {PATH_BYTES_MAX} bytes"));
    }
    let mut parts = if path.starts_with('/') { Vec::new() } else { label(work_dir.unwrap_or_default()) };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(|| format!("{argument}: leads out of the workspace"))?),
            part => parts.push(part.to_owned()),
        }
    }
    let resolved = format!("/{}", parts.join("/"));
    if resolved.chars().any(is_refused) {
        return Err(format!("{argument}: holds a character that no path here may hold"));
    }
    if resolved.len() > PATH_BYTES_MAX {
        return Err(format!("{argument}: is longer than {PATH_BYTES_MAX} bytes"));
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_the_workspace_or_refused() {
        for (work_dir, path, resolved) in [
            (None, "a.md", Ok("/a.md")),
            (Some("/document"), "a.md", Ok("/document/a.md")),
            (Some("/document"), "/markdown/a.md", Ok("/markdown/a.md")),
            (Some("document/x/"), "./../b//c.md", Ok("/document/b/c.md")),
            (Some("../../etc"), "passwd", Ok("/etc/passwd")),
            (Some("C:\\Users\\me"), "a.md", Ok("/C:_Users_me/a.md")),
            (Some("/home/me"), "../../a.md", Ok("/a.md")),
            (Some("/home/me"), "../../../a.md", Err("filePath: leads out of the workspace")),
            (None, "../a", Err("filePath: leads out of the workspace")),
            (None, "/a/../../b", Err("filePath: leads out of the workspace")),
            (None, "a/", Err("filePath: names no file")),
            (None, "", Err("filePath: names no file")),
            (None, "a\0b", Err("filePath: holds a character that no path here may hold")),
            (None, "a\\b", Err("filePath: holds a character that no path here may hold")),
        ] {
            let resolved = resolved.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(file_path(work_dir, path), resolved, "{work_dir:?} {path}");
        }
        assert!(file_path(None, &"x".repeat(PATH_BYTES_MAX)).is_err());
        assert!(file_path(Some(&"x".repeat(10_000)), "a.md").is_ok());
        assert_eq!(folder_path(Some("/d"), ""), Ok("/d/".to_owned()));
        assert_eq!(folder_path(Some("/d"), "/"), Ok("/".to_owned()));
    }
}
