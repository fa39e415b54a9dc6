//! What keeps guests apart: a fresh instance for each turn, nothing around it, keys, and sessions of one's own.

use super::Own;
use crate::cli::selftest::{
    case::{Case, Plugin},
    clients::{Caller, NoTurn},
    ground::{Stand, WITNESS, failed, whole},
    verdict::{Proof, Trouble},
};

pub(super) fn of_server(own: &Own<'_>) -> Vec<Case> {
    let cases = [
        Case::fixed("fresh-state", "a guest that remembers earlier turns", "none", fresh),
        Case::fixed("surroundings", "a guest that looks for variables, arguments and folders", "none", surroundings),
        Case::fixed("surroundings", "a guest that connects to a port of this machine", "none", sockets),
        Case::fixed("trap", "a guest that traps", "ended", traps),
        Case::fixed("trap", "a guest that traps before it is asked", "ended", start_traps)
            .plugins(&[Plugin::TrappingStart]),
        Case::fixed("invalid-text", "a guest that shows what is no UTF-8", "ended", garbage),
        Case::fixed("keys", "no key, a wrong one, and another tenant's", "401", keys),
        Case::fixed(
            "other-sessions",
            "a session of the same name at another tenant, and of another person",
            "apart",
            sessions,
        ),
    ];
    cases.map(|case| own.server(case)).into()
}

async fn fresh(stand: Stand) -> Proof {
    for _ in 0..3 {
        let (mythra, lingzhu) = stand.both("g").await?;
        if [&mythra, &lingzhu].iter().any(|heard| heard.text != "11") {
            let said = format!("a guest found {:?} and {:?} of earlier turns", mythra.text, lingzhu.text);
            return Err(Trouble::Broke(said));
        }
    }
    Ok("six turns, each the first".to_owned())
}

async fn surroundings(stand: Stand) -> Proof {
    let (mythra, _) = stand.both("q").await?;
    if mythra.text == "000" {
        return Ok("none found".to_owned());
    }
    Err(Trouble::Broke(format!("it found something: {:?} {}", mythra.text, mythra.error)))
}

async fn sockets(stand: Stand) -> Proof {
    let (mythra, _) = stand.both(&format!("c {}", stand.ground.silence.port())).await?;
    match mythra.text.as_str() {
        // The place of `access-denied` among the errors.
        "101" => Ok("denied".to_owned()),
        "0" => Err(Trouble::Broke("it may".to_owned())),
        other => Err(Trouble::Unproven(format!("it failed for another reason: {other:?} {}", mythra.error))),
    }
}

async fn traps(stand: Stand) -> Proof {
    stand.both_fail("x").await?;
    Ok("ended, with the general apology".to_owned())
}

async fn start_traps(stand: Stand) -> Proof {
    let caller = Caller { agent: "trapping-start".to_owned(), ..stand.caller() };
    failed(&whole("Lingzhu", caller.lingzhu("e x").await)?)?;
    failed(&whole("Mythra", caller.mythra("e x").await)?)?;
    Ok("ended, with the general apology".to_owned())
}

async fn garbage(stand: Stand) -> Proof {
    stand.both_fail("u").await?;
    Ok("ended, and none of it shown".to_owned())
}

/// Every way to ask with a key that does not fit must be answered alike.
async fn keys(stand: Stand) -> Proof {
    let own = stand.caller();
    let with = |key: Option<&str>| Caller { key: key.map(str::to_owned), ..own.clone() };
    let elsewhere = Caller { tenant: WITNESS.to_owned(), ..own.clone() };
    let nowhere = Caller { tenant: "selftest-nobody".to_owned(), ..own.clone() };
    for (who, caller) in [
        ("a wrong key", with(Some("hk_selftest"))),
        ("another tenant's key", with(Some(&stand.ground.witness_key))),
        ("a key at another tenant", elsewhere),
        ("a key at a tenant that is not there", nowhere),
    ] {
        refused(who, caller.lingzhu("e x").await.err())?;
        refused(who, caller.socket().await.err())?;
    }
    refused("no key", with(None).lingzhu("e x").await.err())?;
    // Over Mythra a key may still come with the message.
    let heard = whole("Mythra", with(None).mythra("e x").await)?;
    if heard.error != "unauthorized" || !heard.text.is_empty() {
        return Err(Trouble::Broke(format!("without a key a Mythra client heard {:?} {:?}", heard.text, heard.error)));
    }
    Ok("ten tries, all refused".to_owned())
}

fn refused(who: &str, no_turn: Option<NoTurn>) -> Result<(), Trouble> {
    match no_turn {
        Some(NoTurn::Refused(401, _)) => Ok(()),
        Some(NoTurn::Refused(status, words)) => {
            Err(Trouble::Broke(format!("{who} was refused with {status}: {words}")))
        }
        Some(NoTurn::Broken(why)) => Err(Trouble::Unproven(why)),
        None => Err(Trouble::Broke(format!("{who} opened an agent"))),
    }
}

async fn sessions(stand: Stand) -> Proof {
    let mine = Caller { user: Some("one".to_owned()), ..stand.caller() };
    whole("Lingzhu", mine.lingzhu("e hello").await)?;
    let remembered = async |caller: &Caller| Ok::<_, Trouble>(whole("Lingzhu", caller.lingzhu("y").await)?.number());
    let own = remembered(&mine).await?;
    let witness_key = Some(stand.ground.witness_key.clone());
    let theirs = Caller { tenant: WITNESS.to_owned(), key: witness_key, ..mine.clone() };
    let person = Caller { user: Some("two".to_owned()), ..mine.clone() };
    let (theirs, person) = (remembered(&theirs).await?, remembered(&person).await?);
    // What was said and what was answered, unless the operator keeps less.
    if own.is_none_or(|own| own == 0) {
        return Err(Trouble::Untried("this configuration remembers nothing".to_owned()));
    }
    if (theirs, person) != (Some(0), Some(0)) {
        return Err(Trouble::Broke(format!("another tenant saw {theirs:?} messages, another person {person:?}")));
    }
    Ok("nothing seen of the other".to_owned())
}
