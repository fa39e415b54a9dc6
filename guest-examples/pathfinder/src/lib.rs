//! Guides the wearer of a pair of AI glasses: how an agent uses facts, history, the tools of a device, and follow-up
//! questions, and what it says when a tool fails.
//!
//! It does not know over which protocol it is served: where there are no glasses, `turn.tools` has no tools of theirs.

wit_bindgen::generate!({ path: "../../wit", world: "agent" });

mod intent;
mod language;
mod moment;

use exports::hostelry::agent::handler::Guest;
use hostelry::agent::{
    host::{call_tool, emit_event},
    log::{Level, log},
    turn,
    types::{Content, EmitError, Event, Message, Output, Request, Role, ToolError},
};
use intent::{Intent, Way};
use language::Language;
use moment::Moment;
use serde_json::{Value, json};

struct Pathfinder;

export!(Pathfinder);

impl Guest for Pathfinder {
    fn handle(request: Request) -> Result<(), String> {
        let text = last_text(&request.input);
        let photo = request.input.iter().any(|message| matches!(message.content, Content::Image(_)));
        // A photo comes alone, in a turn of its own; the question it belongs to was asked in an earlier one.
        let words = if photo { text.or_else(|| last_text(&turn::history(20))) } else { text }.unwrap_or_default();

        let guide = Guide { language: Language::of(turn::get("lang").as_deref(), &words) };
        let intent = if photo { Intent::Explain { question: &words } } else { Intent::of(&words) };
        show(&Event::Chat(Output::Delta(guide.answer(&intent))))?;
        match guide.questions(&intent) {
            questions if questions.is_empty() => Ok(()),
            questions => show(&Event::FollowUp(questions)),
        }
    }
}

/// Answers in one language.
struct Guide {
    language: Language,
}

impl Guide {
    fn answer(&self, intent: &Intent<'_>) -> String {
        match intent {
            Intent::Look => self.look(),
            Intent::Explain { question } => self.explain(question),
            Intent::Navigate { place: "", .. } => self.pick("Where would you like to go?", "您想去哪里？"),
            Intent::Navigate { place, by } => self.navigate(place, *by),
            Intent::StopNavigation => self.stop_navigation(),
            Intent::Remind { title, start: Some(start) } if !title.is_empty() => self.remind(title, *start),
            Intent::Remind { .. } => self.pick(
                "Of what, and when? Say it like this: remind me to call home at 2026-03-02 10:00.",
                "提醒什么、什么时候？请这样说：提醒我 2026-03-02 10:00 开会。",
            ),
            Intent::Leave => self.leave(),
            Intent::Weather => self.fact("weather", "The weather: ", "天气："),
            Intent::Battery => self.fact("battery", "Battery, in percent: ", "电量（百分比）："),
            Intent::Place => self.fact("location", "You are here: ", "您在这里："),
            Intent::Time => self.time(),
            Intent::Other => self.introduction(),
        }
    }

    fn look(&self) -> String {
        self.device("take_photo", &json!({}), || self.pick("Let me have a look.", "我看一下。"))
    }

    /// Here an agent would hand the photo's URL and the question to a vision model.
    fn explain(&self, question: &str) -> String {
        match (self.language, question) {
            (_, "") => self.pick("I have your photo. What would you like to know?", "照片收到了。您想知道什么？"),
            (Language::English, _) => {
                format!(
                    "I have your photo, and you asked: \"{question}\" I am an example and cannot see; a model would."
                )
            }
            (Language::Chinese, _) => format!("照片收到了，您问的是“{question}”。我只是个示例，看不见；模型可以。"),
        }
    }

    fn navigate(&self, place: &str, by: Way) -> String {
        let (kind, english, chinese) = match by {
            Way::Drive => ("0", "by car", "驾车"),
            Way::Walk => ("1", "on foot", "步行"),
            Way::Ride => ("2", "by bicycle", "骑行"),
        };
        let args = json!({ "action": "open", "poi_name": place, "navi_type": kind });
        self.device("take_navigation", &args, || {
            let set_off = match self.language {
                Language::English => format!("Off we go to {place}, {english}."),
                Language::Chinese => format!("出发，{chinese}去{place}。"),
            };
            set_off + &self.battery_warning()
        })
    }

    fn stop_navigation(&self) -> String {
        let args = json!({ "action": "close" });
        self.device("take_navigation", &args, || self.pick("The navigation is off.", "导航已结束。"))
    }

    fn remind(&self, title: &str, start: Moment) -> String {
        let end = start.half_an_hour_later();
        let args = json!({
            "action": "create",
            "title": title,
            "start_time": start.to_string(),
            "end_time": end.to_string(),
        });
        self.device("control_calendar", &args, || match self.language {
            Language::English => format!("It is in your calendar: {title}, {start}."),
            Language::Chinese => format!("已加入日程：{title}，{start}。"),
        })
    }

    fn leave(&self) -> String {
        self.device("notify_agent_off", &json!({}), || self.pick("Goodbye!", "再见！"))
    }

    /// What the wearer hears of a call of one of the glasses' tools: `done` if it went well, else why it did not.
    ///
    /// The reason in the error is for whoever wrote the agent, so it goes to the log.
    fn device(&self, tool: &str, args: &Value, done: impl FnOnce() -> String) -> String {
        if !turn::tools().iter().any(|known| known.name == tool) {
            return self.no_glasses();
        }
        let Err(error) = call_tool(tool, &args.to_string()) else {
            return done();
        };
        log(Level::Warn, &format!("{tool} {args}: {error}"));
        match error {
            ToolError::Unknown(_) => self.no_glasses(),
            ToolError::Denied(_) => self.pick("I am not allowed to do that here.", "这里不允许我这样做。"),
            ToolError::InvalidArgs(_) => self.pick(
                "The glasses did not take it that way. Could you say it in other words?",
                "眼镜没听明白，请换个说法。",
            ),
            ToolError::Timeout => {
                self.pick("The glasses do not answer. Please try again.", "眼镜没有回应，请再试一次。")
            }
            ToolError::Failed(_) => self.pick("That did not work. Please try again.", "没有成功，请再试一次。"),
        }
    }

    fn no_glasses(&self) -> String {
        self.pick("I can only do that with glasses, and there are none here.", "这要用眼镜才行，这里没有连接眼镜。")
    }

    /// What the client says of itself; not every client says everything.
    fn fact(&self, key: &str, english: &str, chinese: &str) -> String {
        match turn::get(key) {
            Some(value) => self.pick(english, chinese) + &value,
            None => self.pick("Nobody told me, I am sorry.", "抱歉，没有人告诉我。"),
        }
    }

    /// The glasses' own clock if they show it, else the host's, which is in UTC.
    fn time(&self) -> String {
        let key = if turn::get("current-time").is_some() { "current-time" } else { "now" };
        self.fact(key, "It is ", "现在是 ")
    }

    fn battery_warning(&self) -> String {
        let left = turn::get("battery").and_then(|battery| battery.trim_end_matches('%').parse::<f32>().ok());
        match (left, self.language) {
            (Some(left), Language::English) if left < 20.0 => format!(" Mind the battery: {left} % left."),
            (Some(left), Language::Chinese) if left < 20.0 => format!("注意，电量只剩 {left}%。"),
            _ => String::new(),
        }
    }

    fn introduction(&self) -> String {
        let place = match (turn::get("location"), self.language) {
            (Some(place), Language::English) => format!("You are at {place}. "),
            (Some(place), Language::Chinese) => format!("您在{place}。"),
            (None, _) => String::new(),
        };
        let offer = self.pick(
            "I can look at things, guide you to a place and remind you of things.",
            "我可以帮您看东西、导航和记日程。",
        );
        place + &offer
    }

    /// What the wearer may want to say next.
    fn questions(&self, intent: &Intent<'_>) -> Vec<String> {
        let questions: &[&str] = match intent {
            Intent::Leave => &[],
            Intent::Navigate { .. } => {
                self.language.pick(&["How is the weather?", "Stop navigation"], &["天气怎么样？", "停止导航"])
            }
            Intent::Weather | Intent::Battery | Intent::Place | Intent::Time => {
                self.language.pick(&["What is this?", "Goodbye"], &["这是什么？", "再见"])
            }
            _ => self.language.pick(&["What is this?", "Where am I?"], &["这是什么？", "我在哪里？"]),
        };
        questions.iter().map(|&question| question.to_owned()).collect()
    }

    fn pick(&self, english: &str, chinese: &str) -> String {
        self.language.pick(english, chinese).to_owned()
    }
}

/// The user's last words.
fn last_text(messages: &[Message]) -> Option<String> {
    messages.iter().rev().find_map(|message| match message {
        Message { role: Role::User, content: Content::Text(text) } => Some(text.clone()),
        _ => None,
    })
}

fn show(event: &Event) -> Result<(), String> {
    emit_event(event).map_err(|error| match error {
        EmitError::Closed => "the client is gone".to_owned(),
        EmitError::Refused(why) => why,
    })
}
