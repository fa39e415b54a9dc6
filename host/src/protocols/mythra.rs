//! The Mythra endpoint: external agents of Mythra Agent Studio over a WebSocket.
//!
//! Here is the way in: the handshake and what it is refused for. `socket` serves a connection, `wire` knows the
//! JSON, `encode` shows a turn. What the protocol's document leaves open is decided in `docs/protocols/mythra.md`.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{
        FromRequestParts as _, Path, Request, State, WebSocketUpgrade, rejection::PathRejection,
        ws::rejection::WebSocketUpgradeRejection as NoUpgrade,
    },
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tracing::Instrument as _;

use self::{
    gate::{Gate, Shut},
    session_locks::SessionLocks,
    socket::Connection,
    wire::{ApiKey, Refusal},
};
use super::Lobby;
use crate::{admission::Busy, limit::Limit, text};

mod encode;
mod gate;
mod line;
mod session_locks;
mod socket;
mod wire;

/// How much is read from the socket at once. It is allocated with each connection, of which most are idle; a longer
/// message is read in several steps.
const READ_BUFFER: usize = 8 * 1024;
/// From how many bytes on frames are written without waiting for their batch's flush. Small, so that a slow client is
/// seen to move.
const WRITE_BUFFER: usize = 16 * 1024;

/// The endpoint's routes.
pub fn routes() -> Router<Arc<Lobby>> {
    let endpoint = get(upgrade).fallback(method_not_allowed);
    Router::new()
        .route("/agents/{tenant}/{agent}/mythra", endpoint.clone())
        .route("/agents/{tenant}/{agent}/mythra/", endpoint)
        .layer(Extension(Arc::new(SessionLocks::default())))
}

async fn upgrade(
    State(lobby): State<Arc<Lobby>>,
    Extension(locks): Extension<Arc<SessionLocks>>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Response {
    if request.method() == Method::HEAD {
        return method_not_allowed().await;
    }
    if lobby.draining.is_cancelled() {
        let busy = Busy::ShuttingDown;
        let retry_after = [(header::RETRY_AFTER, busy.retry_after().to_string())];
        return (retry_after, refusal(StatusCode::SERVICE_UNAVAILABLE, &busy.to_string())).into_response();
    }
    let (mut parts, _body) = request.into_parts();
    // Names that are not even text are those of nobody.
    let (tenant, agent) = path.map(|Path(names)| names).unwrap_or_default();
    let key = key_of(&parts.headers, parts.uri.query());
    let gate = match Gate::knock(&lobby.tenants(), tenant, agent, key) {
        Ok(gate) => gate,
        Err(Shut::Unauthorized) => {
            tracing::info!("a handshake is refused: wrong key");
            let scheme = [(header::WWW_AUTHENTICATE, "Bearer")];
            return (scheme, refusal(StatusCode::UNAUTHORIZED, "unauthorized")).into_response();
        }
        Err(Shut::NoSuchTenant) => return refusal(StatusCode::NOT_FOUND, "no such tenant"),
    };
    if gate.is_open() && lobby.registry.get(&gate.tenant, &gate.agent).is_none() {
        return refusal(StatusCode::NOT_FOUND, "no such agent");
    }
    let place = match gate.place() {
        Some(Ok(place)) => Some(place),
        Some(Err(tenant)) => {
            let busy = Busy::Connections;
            lobby.metrics.limit_of(Limit::TenantConnections, &tenant);
            tracing::info!(tenant, "a handshake is refused: {busy}");
            let retry_after = [(header::RETRY_AFTER, busy.retry_after().to_string())];
            return (retry_after, refusal(StatusCode::TOO_MANY_REQUESTS, &busy.to_string())).into_response();
        }
        None => None,
    };
    let mut upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(why) => return no_upgrade(&why),
    };
    if let Some(protocol) = first_protocol(&parts.headers) {
        upgrade.set_selected_protocol(protocol);
    }
    let name = |name: &str| text::visible(text::head(name, crate::ids::NAME_MAX));
    let span = tracing::info_span!("mythra", tenant = %name(&gate.tenant), agent = %name(&gate.agent));
    // Counted from here on, so that a shutdown waits for it.
    let counted = lobby.connections.token();
    let max = lobby.config().mythra.max_buffer;
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(max)
        .max_frame_size(max)
        .on_failed_upgrade(|error| tracing::debug!(%error, "a client left in the middle of its handshake"))
        .on_upgrade(move |socket| async move {
            Connection::new(lobby, locks, (gate, place), socket).serve().instrument(span).await;
            drop(counted);
        })
}

async fn method_not_allowed() -> Response {
    let allow = [(header::ALLOW, "GET")];
    (allow, refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET, with an upgrade to WebSocket")).into_response()
}

/// The answer to a request that is no WebSocket handshake, or not one of ours.
fn no_upgrade(why: &NoUpgrade) -> Response {
    const VERSION: HeaderName = header::SEC_WEBSOCKET_VERSION;
    let upgrade = [(header::UPGRADE, "websocket"), (header::CONNECTION, "upgrade")];
    let required = StatusCode::UPGRADE_REQUIRED;
    match why {
        NoUpgrade::InvalidWebSocketVersionHeader(_) => {
            (upgrade, [(VERSION, "13")], refusal(required, "only version 13 of WebSocket is served")).into_response()
        }
        NoUpgrade::WebSocketKeyHeaderMissing(_) => refusal(StatusCode::BAD_REQUEST, "sec-websocket-key is required"),
        _ => (upgrade, refusal(required, "this address speaks WebSocket")).into_response(),
    }
}

/// The key that a handshake shows: a bearer token, or else the query's `key`.
fn key_of(headers: &HeaderMap, query: Option<&str>) -> Option<ApiKey> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        // A header that is not UTF-8 holds no key of ours, but it was meant for one.
        let value = String::from_utf8_lossy(value.as_bytes());
        let (scheme, token) = value.trim().split_once(char::is_whitespace)?;
        if scheme.eq_ignore_ascii_case("bearer") { ApiKey::new(token) } else { None }
    });
    bearer.or_else(|| {
        let mut pairs = url::form_urlencoded::parse(query?.as_bytes());
        pairs.find(|(name, _)| name == "key").and_then(|(_, value)| ApiKey::new(&value))
    })
}

/// The first subprotocol that the client offers. It gets that one: a client that offered some fails its handshake
/// without one, and they mean nothing here.
fn first_protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.as_bytes();
    let first = offered.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).find(|name| !name.is_empty())?;
    HeaderValue::from_bytes(first).ok()
}

fn refusal(status: StatusCode, error: &str) -> Response {
    (status, axum::Json(Refusal { error })).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_bytes(value.as_bytes()).unwrap())])
    }

    #[test]
    fn a_key_is_a_bearer_token_or_the_querys() {
        let cases = [
            ("Bearer k", None, Some("k")),
            (" bearer   k ", None, Some("k")),
            ("BEARER\tk", Some("key=q"), Some("k")),
            ("Basic k", Some("key=q"), Some("q")),
            ("Bearer", Some("a=b&key=q%2Bq"), Some("q+q")),
            ("Bearer ", Some("key="), None),
            ("k", None, None),
        ];
        for (authorization, query, expected) in cases {
            let key = key_of(&headers(header::AUTHORIZATION, authorization), query);
            assert_eq!(key.as_ref().map(ApiKey::expose), expected, "{authorization:?} {query:?}");
        }
    }

    #[test]
    fn the_first_offered_subprotocol_is_chosen() {
        let first = |offered: &str| first_protocol(&headers(header::SEC_WEBSOCKET_PROTOCOL, offered));
        assert_eq!(first("soap, aaa").unwrap(), "soap");
        assert_eq!(first(" ,b").unwrap(), "b");
        assert_eq!(first(","), None);
        assert_eq!(first_protocol(&HeaderMap::new()), None);
    }

    #[test]
    fn a_plain_request_is_told_what_is_spoken_here() {
        let response = method_not_allowed_headers();
        assert_eq!(response, ("GET".to_owned(), 405));
    }

    fn method_not_allowed_headers() -> (String, u16) {
        let response = futures_util::FutureExt::now_or_never(method_not_allowed()).unwrap();
        (response.headers()[header::ALLOW].to_str().unwrap().to_owned(), response.status().as_u16())
    }
}
