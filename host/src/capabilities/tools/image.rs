//! Group `http`: fetching an image for an agent, from hosts that the operator lists and from no address inside.
//!
//! The address is checked twice: as it is written, and, where it is a name, each address that the name turns out to be,
//! in the resolver that the connection itself uses. Redirects are followed by hand, with the same checks.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Client, Url,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION},
    redirect::Policy,
};
use serde_json::{Value, json};

use self::address::{NotPublic, PublicOnly, check};
use super::schema::ToolSpec;
use crate::bindings::types::ToolError;

mod address;

/// The largest image, in bytes: a photo in full size, and what one turn's memory holds twice over.
pub const IMAGE_BYTES_MAX: usize = 10 * 1024 * 1024;
/// How many redirects are followed.
pub const REDIRECTS_MAX: usize = 3;
/// How long a connection may take to open.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The tools.
pub const TOOLS: &[ToolSpec] = &[ToolSpec {
    name: "fetch_image",
    description: "Fetch an image from the web; gives its media type, its size and a data URL of it.",
    parameters: r#"{"type":"object","properties":{
        "url":{"type":"string","maxLength":8192,"description":"an http or https address"}
        },"required":["url"],"additionalProperties":false}"#,
}];

/// What fetches: no redirects of its own, no proxy, and names only as public addresses.
pub fn client() -> reqwest::Result<Client> {
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .user_agent(concat!("hostelry/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIME)
        .dns_resolver(Arc::new(PublicOnly))
        .build()
}

/// Fetches an image. The caller bounds its time.
pub async fn run(args: &Value, allowed: &[String], client: &Client) -> Result<Value, ToolError> {
    let given = args.get("url").and_then(Value::as_str).unwrap_or_default();
    let mut url = Url::parse(given).map_err(|_| ToolError::InvalidArgs("url: is no address".to_owned()))?;
    for _ in 0..=REDIRECTS_MAX {
        check(&url, allowed).map_err(ToolError::Denied)?;
        let request = client.get(url.clone()).header(ACCEPT, "image/*").header(ACCEPT_ENCODING, "identity");
        let response = request.send().await.map_err(|error| failed(&error))?;
        if response.status().is_redirection() {
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            url = location
                .and_then(|location| url.join(location).ok())
                .ok_or_else(|| ToolError::Failed("the server redirects to nowhere".to_owned()))?;
            continue;
        }
        if !response.status().is_success() {
            return Err(ToolError::Failed(format!("the server answers {}", response.status().as_u16())));
        }
        return image(response).await;
    }
    Err(ToolError::Failed(format!("the server redirects more than {REDIRECTS_MAX} times")))
}

/// The image in an answer.
async fn image(mut response: reqwest::Response) -> Result<Value, ToolError> {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !is_image(&media_type) {
        return Err(ToolError::Failed("what is there is no image".to_owned()));
    }
    // Asked not to pack it; nothing is unpacked here, so no small answer becomes a large image.
    if response.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(ToolError::Failed("the server packs the image, which it was asked not to".to_owned()));
    }
    if response.content_length().is_some_and(|bytes| bytes > IMAGE_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
        if bytes.len() + chunk.len() > IMAGE_BYTES_MAX {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    let data_url = format!("data:{media_type};base64,{}", BASE64_STANDARD.encode(&bytes));
    Ok(json!({ "media_type": media_type, "bytes": bytes.len(), "data_url": data_url }))
}

/// Whether a media type is an image's, of no character that would mean something in a data URL.
fn is_image(media_type: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || b"+-._".contains(&c);
    media_type.strip_prefix("image/").is_some_and(|kind| (1..=64).contains(&kind.len()) && kind.bytes().all(good))
}

fn too_large() -> ToolError {
    ToolError::Failed(format!("the image is larger than {IMAGE_BYTES_MAX} bytes"))
}

/// A failure in safe words; the cause goes to the log.
fn failed(error: &reqwest::Error) -> ToolError {
    tracing::debug!("cannot fetch an image: {error:?}");
    let mut causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    if causes.any(<dyn std::error::Error>::is::<NotPublic>) {
        return ToolError::Denied(NotPublic.to_string());
    }
    let words = if error.is_timeout() { "the server does not answer" } else { "the server cannot be reached" };
    ToolError::Failed(words.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Serves these answers, one a connection.
    async fn serve(answers: Vec<String>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut head = [0; 4096];
                assert!(socket.read(&mut head).await.unwrap() > 0);
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    async fn fetch(answers: Vec<String>) -> Result<Value, ToolError> {
        let address = serve(answers).await;
        let args = json!({ "url": format!("http://{address}/a") });
        run(&args, &[address.to_string()], &client().unwrap()).await
    }

    fn answer(head: &str, body: &str) -> String {
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn an_image_comes_as_a_data_url() {
        let image = fetch(vec![answer("200 OK\r\ncontent-type: image/png; x=y", "abc")]).await.unwrap();
        assert_eq!(image, json!({ "media_type": "image/png", "bytes": 3, "data_url": "data:image/png;base64,YWJj" }));
    }

    #[tokio::test]
    async fn what_is_no_image_or_leads_elsewhere_is_not_fetched() {
        let page = fetch(vec![answer("200 OK\r\ncontent-type: text/html", "abc")]).await;
        assert!(matches!(page, Err(ToolError::Failed(why)) if why.contains("no image")));
        let inside = fetch(vec![answer("302 Found\r\nlocation: http://169.254.169.254/", "")]).await;
        assert!(matches!(inside, Err(ToolError::Denied(_))));
        let around = fetch(vec![answer("302 Found\r\nlocation: /a", ""); 4]).await;
        assert!(matches!(around, Err(ToolError::Failed(why)) if why.contains("3 times")));
        let large = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 10485761\r\n\r\n".to_owned();
        assert!(matches!(fetch(vec![large]).await, Err(ToolError::Failed(why)) if why.contains("10485760 bytes")));
        let endless = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\nconnection: close\r\n\r\n{}",
            "x".repeat(IMAGE_BYTES_MAX + 1),
        );
        assert!(matches!(fetch(vec![endless]).await, Err(ToolError::Failed(why)) if why.contains("10485760 bytes")));
        let packed = fetch(vec![answer("200 OK\r\ncontent-type: image/png\r\ncontent-encoding: gzip", "abc")]).await;
        assert!(matches!(packed, Err(ToolError::Failed(why)) if why.contains("packs")));
        let forged = fetch(vec![answer("200 OK\r\ncontent-type: image/png,x", "abc")]).await;
        assert!(matches!(forged, Err(ToolError::Failed(why)) if why.contains("no image")));
        let missing = fetch(vec![answer("404 Not Found", "")]).await;
        assert!(matches!(missing, Err(ToolError::Failed(why)) if why.contains("404")));
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused_where_it_is_resolved() {
        // Past the check of the name, which knows this one: any other name may be pointed at the same address.
        let address = serve(vec![answer("200 OK\r\ncontent-type: image/png", "abc")]).await;
        let url = format!("http://localhost:{}/a", address.port());
        let error = client().unwrap().get(url).send().await.unwrap_err();
        assert!(matches!(failed(&error), ToolError::Denied(why) if why.contains("no public address")));
    }
}
