//! What an agent asks for: the file beside its component (`weather.toml` beside `weather.wasm`).

use std::collections::BTreeMap;

use super::Limits;

/// The checked file beside a component. What an agent gets is this within what its tenant's entry allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentConfig {
    /// The public id that answers carry where the client names none; the agent's name by default.
    pub id: Option<String>,
    /// Patterns over `group/tool` that it wants; `None` is all that its tenant may.
    pub tools: Option<Vec<String>>,
    /// Hosts that it wants to be fetched from; `None` is all that its tenant may.
    pub http: Option<Vec<String>>,
    /// Its own, tighter limits, where it has any.
    pub limits: Option<Limits>,
    /// What becomes of Markdown on a device that cannot show it.
    pub markdown: Markdown,
    /// What is shown, once, when the agent is silent for long.
    pub progress: Option<String>,
    /// Its own texts, by language; the empty language is for all.
    pub texts: BTreeMap<String, Texts>,
}

/// What becomes of Markdown on a device that cannot show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Markdown {
    /// Its marks are taken out.
    #[default]
    Strip,
    /// It is passed on as it is.
    Keep,
}

/// What the host says for an agent that cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// When the agent failed.
    pub apology: Option<String>,
    /// When the agent said nothing.
    pub nothing: Option<String>,
}

impl AgentConfig {
    /// What is said when the agent failed, in the language of the BCP 47 tag `lang`.
    pub fn apology(&self, lang: &str) -> &str {
        self.text(lang, |texts| texts.apology.as_deref()).unwrap_or(if is_chinese(lang) {
            "抱歉，我现在无法回答，请稍后再试。"
        } else {
            "Sorry, I can't answer right now. Please try again later."
        })
    }

    /// What is said when the agent said nothing, in the language of the BCP 47 tag `lang`.
    pub fn nothing(&self, lang: &str) -> &str {
        self.text(lang, |texts| texts.nothing.as_deref()).unwrap_or(if is_chinese(lang) {
            "我暂时没有可以回答的内容。"
        } else {
            "I have nothing to say to that."
        })
    }

    /// The agent's own text: for exactly this tag, for its language, or for all languages.
    fn text<'a>(&'a self, lang: &str, pick: impl Fn(&'a Texts) -> Option<&'a str>) -> Option<&'a str> {
        let lang = lang.to_ascii_lowercase();
        let primary = primary(&lang).to_owned();
        [lang, primary, String::new()].iter().find_map(|tag| self.texts.get(tag).and_then(&pick))
    }
}

fn is_chinese(lang: &str) -> bool {
    primary(&lang.to_ascii_lowercase()) == "zh"
}

fn primary(lang: &str) -> &str {
    lang.split(['-', '_']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_own_text_goes_before_the_hosts_and_the_nearest_language_first() {
        let mut agent = AgentConfig::default();
        assert!(agent.apology("zh-CN").starts_with("抱歉"));
        assert!(agent.apology("en").starts_with("Sorry"));
        let texts = |text: &str| Texts { apology: Some(text.to_owned()), nothing: None };
        agent.texts = BTreeMap::from([(String::new(), texts("any")), ("zh".to_owned(), texts("中"))]);
        assert_eq!(agent.apology("zh-CN"), "中");
        assert_eq!(agent.apology("fr"), "any");
        assert!(agent.nothing("fr").starts_with("I have"));
    }
}
