//! What the answers of the admin listener have in common: how they refuse, and how they read what is asked.

use axum::{
    Json,
    extract::{FromRequestParts, Query},
    http::{HeaderName, HeaderValue, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::ToSchema;

use crate::{ids, records::Unreadable, text};

/// How much of a request's own words a refusal repeats, in bytes.
const QUOTED_MAX: usize = 256;

/// Why a request is not answered as it asks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub(super) struct Refusal {
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    header: Option<(HeaderName, HeaderValue)>,
    /// Why, in words.
    error: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: &str) -> Self {
        Self { status, header: None, error: text::visible(text::head(error, QUOTED_MAX)) }
    }

    /// A parameter that cannot be understood.
    pub(super) fn bad(error: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// Something that is not there.
    pub(super) fn missing(error: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// With a header.
    pub(super) fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }
}

impl From<Unreadable> for Refusal {
    fn from(unreadable: Unreadable) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, &unreadable.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let header = self.header.clone();
        let mut response = (self.status, Json(self)).into_response();
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// The query of a request: no parameter that is not known, none twice.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Query(asked) = Query::try_from_uri(&parts.uri).map_err(|refused| {
            // Its own words begin with what it does, which is nothing to who asks.
            let text = refused.body_text();
            Refusal::bad(text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text))
        })?;
        Ok(Self(asked))
    }
}

/// What is asked where there is nothing to ask for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The name of a tenant or an agent that the parameter `key` asks for.
pub(super) fn name(key: &str, value: Option<String>) -> Result<Option<String>, Refusal> {
    match value {
        Some(value) if !ids::is_name(&value) => {
            Err(Refusal::bad(&format!("{key}: no name; one matches [a-z0-9][a-z0-9-]{{0,62}}")))
        }
        value => Ok(value),
    }
}
