//! The names things go by: tenants, agents, sessions and turns.

use std::fmt;

use rand::RngExt;
use sha2::{Digest, Sha256};

/// The longest name of a tenant or an agent, in characters: a DNS label's, so that a name fits wherever one does.
pub const NAME_MAX: usize = 63;

/// The tenant that serves the plugins folder's own files, as opposed to those in a tenant's folder.
pub const DEFAULT_TENANT: &str = "default";

/// Whether `name` may name a tenant or an agent: `[a-z0-9][a-z0-9-]{0,62}`.
pub fn is_name(name: &str) -> bool {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= NAME_MAX && bytes.first().is_some_and(|c| good(*c)) && bytes.iter().all(|c| good(*c) || *c == b'-')
}

/// A name that an agent can have, as near to `name` as one is.
pub fn better_name(name: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let better: String = name.chars().map(good).skip_while(|c| *c == '-').take(NAME_MAX).collect();
    match better.trim_end_matches('-') {
        "" => "agent".to_owned(),
        better => better.to_owned(),
    }
}

/// Which agent: a tenant's name and the agent's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId {
    /// Whose it is.
    pub tenant: String,
    /// Its own name.
    pub agent: String,
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.agent)
    }
}

/// Which conversation: nobody but the same tenant, agent and user reaches it, whatever id a client names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// Whose agent.
    pub agent: AgentId,
    /// The person, or [`ANONYMOUS`].
    pub user: String,
    /// The client's own id of the conversation.
    pub conversation: String,
}

/// The user of a client that names none.
pub const ANONYMOUS: &str = "anon";

impl SessionKey {
    /// A short, fixed-length stand-in for the whole key, the same at every start: the parts, hashed with their lengths
    /// so that no two keys can run together.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [&self.agent.tenant, &self.agent.agent, &self.user, &self.conversation] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }
}

/// A new turn's id: 16 random base-36 characters.
pub fn turn_id() -> String {
    base36::<16>()
}

/// `N` random base-36 characters.
pub fn base36<const N: usize>() -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut rng = rand::rng();
    (0..N).map(|_| char::from(DIGITS.get(rng.random_range(0..36_usize)).copied().unwrap_or(b'0'))).collect()
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_labels() {
        for good in ["a", "echo", "0", "my-agent-2", &"x".repeat(63)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", "Echo", "a_b", "a.b", "..", "é", "a/b", "a\0", &"x".repeat(64)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_that_no_agent_can_have_becomes_one_that_it_can() {
        assert_eq!(better_name("My_Agent.v2"), "my-agent-v2");
        assert_eq!(better_name("__"), "agent");
        assert_eq!(better_name("天气"), "agent");
        assert!(is_name(&better_name(&"-A".repeat(99))));
    }

    #[test]
    fn no_two_sessions_share_a_digest_by_running_their_parts_together() {
        let key = |user: &str, conversation: &str| SessionKey {
            agent: AgentId { tenant: "t".to_owned(), agent: "a".to_owned() },
            user: user.to_owned(),
            conversation: conversation.to_owned(),
        };
        assert_ne!(key("ab", "c").digest(), key("a", "bc").digest());
        assert_eq!(key("ab", "c").digest(), key("ab", "c").digest());
    }
}
