//! The document that tells what the admin listener answers, made of the functions and types that do.

use std::sync::LazyLock;

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self, ContentBuilder, Ref, RefOr, ResponseBuilder,
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::{
    agents,
    answer::{Asked, Nothing, Refusal},
    failures, host, limits, tenants, usage,
};

/// The name of the way to show a key.
const KEY: &str = "key";

/// The whole document.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Hostelry admin listener",
        description = "What operators look at. Everything is only to be read, with GET or HEAD. Times are in UTC.",
    ),
    paths(
        host::healthz,
        host::readyz,
        host::metrics,
        document,
        tenants::list,
        tenants::one,
        agents::list,
        agents::one,
        agents::versions,
        usage::list,
        failures::list,
        failures::one,
        limits::list,
    ),
    tags(
        (name = "host", description = "How the host itself does"),
        (name = "tenants", description = "Who may use what, and what they have used"),
        (name = "agents", description = "What is served, and which versions were"),
        (name = "usage", description = "For the bill"),
        (name = "failures", description = "Turns that failed, and what is known of why"),
        (name = "limits", description = "The bounds that can be run into"),
    ),
    modifiers(&Access),
)]
struct Document;

/// Adds to every operation what is the same for all: the key, and what is said to who has none.
struct Access;

impl Modify for Access {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "One of `admin-keys`, made by `hostelry keys admin`. Where there are none, the listener is on a loopback \
             address and needs none",
        ));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(KEY, SecurityScheme::Http(bearer.build()));
        document.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>(KEY, [])]);
        for (path, item) in &mut document.paths.paths {
            let Some(operation) = &mut item.get else { continue };
            refused(operation, "403", "The `Host` header names another machine");
            if operation.security.is_none() {
                refused(operation, "401", "No key, a wrong one, or one that has expired");
            }
            if path.starts_with("/api/") {
                refused(operation, "400", "A parameter of the query that is not known, or cannot be understood");
            }
        }
    }
}

/// Says that an operation can be refused so.
fn refused(operation: &mut Operation, status: &str, why: &str) {
    let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    let response = ResponseBuilder::new().description(why).content("application/json", error).build();
    operation.responses.responses.insert(status.to_owned(), RefOr::T(response));
}

/// The document, as it is sent.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    Document::openapi().to_json().unwrap_or_else(|error| {
        // A document of strings and lists can be written; a test reads it.
        tracing::error!("the OpenAPI document could not be written: {error}");
        String::new()
    })
});

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "host", responses(
    (status = 200, description = "In OpenAPI 3.1", body = Object),
))]
pub(super) async fn document(_: Asked<Nothing>) -> Result<Response, Refusal> {
    Ok(([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_has_every_route_that_is_served_and_no_other() {
        let document = Document::openapi();
        let served: BTreeSet<&str> = super::super::table().iter().map(|(path, _)| *path).collect();
        let told: BTreeSet<&str> = document.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(served, told);
    }

    #[test]
    fn every_operation_says_how_it_is_refused_and_names_its_parameters() {
        let document = Document::openapi();
        for (path, item) in &document.paths.paths {
            let operation = item.get.as_ref().unwrap();
            let statuses: Vec<&str> = operation.responses.responses.keys().map(String::as_str).collect();
            assert!(operation.summary.is_some() && statuses.contains(&"200") && statuses.contains(&"403"), "{path}");
            assert_eq!(statuses.contains(&"401"), path != "/healthz", "{path}");
            assert_eq!(statuses.contains(&"400"), path.starts_with("/api/"), "{path}");
            let told = operation.parameters.iter().flatten().map(|parameter| match parameter {
                RefOr::T(parameter) => parameter.name.as_str(),
                RefOr::Ref(_) => "",
            });
            let told: BTreeSet<&str> = told.collect();
            let named = path.split(['{', '}']).skip(1).step_by(2).collect::<BTreeSet<_>>();
            assert!(named.is_subset(&told), "{path}: {named:?}");
        }
    }
}
