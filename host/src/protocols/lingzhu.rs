//! The Lingzhu endpoint: agents of AI glasses over an HTTP POST that is answered by a stream of events.
//!
//! Here is the way in: the address, and the checks before a turn in the order in which they are made. `body` reads the
//! request, `wire` knows the JSON, `encode` and `markdown` show a turn, `sse` streams it. What the protocol's
//! document leaves open is decided in `docs/protocols/lingzhu.md`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, post},
};

use self::{
    body::{Bounds, Room, Unread, Whole},
    encode::Encoder,
    sse::Silence,
    wire::{Ask, Ids, Refusal, Unfit},
};
use super::Lobby;
use crate::{
    admission::{Busy, Permit},
    ids::{ANONYMOUS, SessionKey},
    runtime::CompiledAgent,
    tenants::{Access, Grant, Tenant},
    text,
    turn::Order,
};

mod body;
mod encode;
mod markdown;
mod sse;
mod wire;

/// What may stand behind a path that somebody typed or pasted into the platform's form.
const TAILS: [&str; 5] = ["", "/", "%20", "%20/", "/%20"];

/// The endpoint's routes.
pub fn routes() -> Router<Arc<Lobby>> {
    let only_post = |endpoint: MethodRouter<Arc<Lobby>>| endpoint.fallback(method_not_allowed);
    let routes = TAILS.iter().fold(Router::new(), |router, tail| {
        router
            .route(&format!("/agents/{{tenant}}/{{agent}}/lingzhu{tail}"), only_post(post(by_path)))
            .route(&format!("/metis/agent/api/sse{tail}"), only_post(post(by_key)))
    });
    routes.layer(Extension(Room::default()))
}

/// Who is asked, once the client has shown that it may ask.
struct Found {
    tenant: Arc<Tenant>,
    agent: Arc<CompiledAgent>,
}

/// Why a request gets no stream. Its text is safe to show.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("only POST")]
    NotPost,
    /// The same for every wrong key, so that a stranger learns nothing.
    #[error("Unauthorized")]
    Unauthorized,
    #[error("{0}")]
    NotFound(&'static str),
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    Busy(#[from] Busy),
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotPost => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Unread(unread) => unread.status(),
            Self::Unfit(_) => StatusCode::BAD_REQUEST,
            Self::Busy(Busy::Rate { .. } | Busy::Tenant | Busy::Budget { .. } | Busy::Connections) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Busy(Busy::Server | Busy::ShuttingDown) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The one header that goes with it, if there is one.
    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::NotPost => Some((header::ALLOW, HeaderValue::from_static("POST"))),
            Self::Unauthorized => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Self::Busy(busy) => Some((header::RETRY_AFTER, busy.retry_after().into())),
            Self::Unread(Unread::NoRoom | Unread::NoTenantRoom) => {
                Some((header::RETRY_AFTER, Busy::Server.retry_after().into()))
            }
            Self::Unread(_) | Self::NotFound(_) | Self::Unfit(_) => None,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = axum::Json(Refusal { error: &self.to_string() });
        let mut response = (self.status(), body).into_response();
        response.headers_mut().extend(self.header());
        response
    }
}

async fn method_not_allowed() -> Refused {
    Refused::NotPost
}

/// The address that names tenant and agent.
async fn by_path(
    State(lobby): State<Arc<Lobby>>,
    Extension(room): Extension<Room>,
    path: Result<Path<HashMap<String, String>>, PathRejection>,
    request: Request,
) -> Response {
    // Names that are not even text are those of nobody.
    let names = path.map(|Path(names)| names).unwrap_or_default();
    let name = |key: &str| names.get(key).map(|name| name.trim()).unwrap_or_default().to_owned();
    let (tenant, agent) = (name("tenant"), name("agent"));
    let key = key_of(request.headers());
    let way = match lobby.tenants().access(&tenant, key.as_deref()) {
        Access::Granted(grant) if grant.opens(&agent) => Ok((grant, agent)),
        Access::Granted(_) | Access::Unauthorized => Err(Refused::Unauthorized),
        Access::Unknown => Err(Refused::NotFound("no such tenant")),
    };
    answer(&lobby, &room, way, request).await
}

/// The address where only the key says who is meant.
async fn by_key(State(lobby): State<Arc<Lobby>>, Extension(room): Extension<Room>, request: Request) -> Response {
    let key = key_of(request.headers());
    let way = match lobby.tenants().by_key(key.as_deref()) {
        Access::Granted(grant) => the_agent(&lobby, grant),
        Access::Unauthorized | Access::Unknown => Err(Refused::Unauthorized),
    };
    answer(&lobby, &room, way, request).await
}

/// The agent that a key is bound to, or else the only one that its tenant has.
fn the_agent(lobby: &Lobby, grant: Grant) -> Result<(Grant, String), Refused> {
    if let Some(agent) = grant.agent.clone() {
        return Ok((grant, agent));
    }
    match lobby.registry.of_tenant(&grant.tenant.name).as_slice() {
        [only] => Ok((grant, only.id.agent.clone())),
        _ => Err(Refused::NotFound(
            "the key is bound to no agent, and its tenant has not just one; hint: make a key with `hostelry keys new \
             TENANT --agent AGENT`, or use the address /agents/TENANT/AGENT/lingzhu",
        )),
    }
}

/// Answers a request that has found its way, or not.
async fn answer(lobby: &Lobby, room: &Room, way: Result<(Grant, String), Refused>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let answered = match way.and_then(|(grant, agent)| find(lobby, grant, &agent)) {
        Ok(found) => serve(lobby, room, found, &parts.headers, body).await,
        Err(refused) => {
            body::throw_away(body, &parts.headers, lobby.config().lingzhu.max_body).await;
            Err(refused)
        }
    };
    answered.unwrap_or_else(|refused| {
        tracing::info!(path = %text::visible(text::head(parts.uri.path(), 256)), "a request is refused: {refused}");
        refused.into_response()
    })
}

fn find(lobby: &Lobby, grant: Grant, agent: &str) -> Result<Found, Refused> {
    // A host that goes down reads no more bodies.
    if lobby.draining.is_cancelled() {
        return Err(Busy::ShuttingDown.into());
    }
    let agent = lobby.registry.get(&grant.tenant.name, agent).ok_or(Refused::NotFound("no such agent"))?;
    Ok(Found { tenant: grant.tenant, agent })
}

/// Reads the request of somebody who may ask, and begins its turn.
async fn serve(lobby: &Lobby, room: &Room, found: Found, headers: &HeaderMap, body: Body) -> Result<Response, Refused> {
    let settings = lobby.config();
    let config = &settings.lingzhu;
    let bounds = Bounds { max: config.max_body, time: settings.server.request_time };
    let read = body::read(body, headers, bounds, &room.of(&found.tenant)).await;
    let Whole { bytes, share } = read.inspect_err(|unread| {
        if let Some(limit) = unread.limit() {
            lobby.metrics.limit_of(limit, &found.tenant.name);
        }
    })?;
    let ask = wire::parse(&bytes)?;
    drop(bytes);
    // Counted before the last look, so that a shutdown which that look misses waits for the stream.
    let counted = lobby.connections.token();
    if lobby.draining.is_cancelled() {
        return Err(Busy::ShuttingDown.into());
    }
    let permit = lobby.admission.admit(&found.tenant)?;
    let agent = &found.agent;
    if ask.facts_dropped > 0 {
        tracing::warn!(agent = %agent.id, dropped = ask.facts_dropped, "a request holds more facts than are kept");
    }
    let ids = ids_of(&ask, agent);
    let progress = agent.config.progress.as_ref().filter(|text| !text.is_empty());
    let progress = progress.map(|text| sse::progress_frame(&ids, text));
    let frames = lobby.turns.start(order(ask, ids, found, permit, config.turn_time));
    Ok(sse::response(frames, Silence::of(config), progress, (counted, share)))
}

/// What every frame repeats: the ids as they came in, and the agent's own public one where the client names none.
fn ids_of(ask: &Ask, agent: &CompiledAgent) -> Ids {
    let own = || agent.config.id.as_ref().unwrap_or(&agent.id.agent);
    Ids { message_id: ask.message_id.clone(), agent_id: ask.agent_id.as_ref().unwrap_or_else(own).clone() }
}

fn order(ask: Ask, ids: Ids, found: Found, permit: Permit, turn_time: Duration) -> Order {
    let Found { tenant, agent } = found;
    let encoder = Encoder::new(ids, &agent.config, ask.lang());
    let session =
        SessionKey { agent: agent.id.clone(), user: person(ask.user_id.as_deref()), conversation: ask.message_id };
    Order {
        agent,
        tenant,
        session,
        user: ask.user_id,
        input: ask.input,
        facts: ask.facts,
        device: true,
        protocol: "lingzhu",
        turn_time: Some(turn_time),
        encoder: Box::new(encoder),
        permit,
    }
}

/// Whose conversation it is: a wearer who has a name never shares one with those who have none, whatever the name is.
fn person(user: Option<&str>) -> String {
    user.map_or_else(|| ANONYMOUS.to_owned(), |user| format!("user:{user}"))
}

/// The key that a request shows, if it shows one.
fn key_of(headers: &HeaderMap) -> Option<String> {
    // A header that is not UTF-8 holds no key of ours.
    let value = std::str::from_utf8(headers.get(header::AUTHORIZATION)?.as_bytes()).ok()?;
    let (scheme, key) = value.trim().split_once(char::is_whitespace)?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then(|| key.to_owned())
}

#[cfg(test)]
mod tests;
