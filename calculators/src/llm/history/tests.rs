use graphmill_llm::TokenizeError;
use proptest::prelude::*;

use super::*;

/// Words of several characters, and two special tokens of which one steers and one is text.
const WORDS: [&str; 6] = ["ab", "abb", "\n\n", "<s>", "<e>", "<t>"];
const FIRST_SPECIAL: Token = 256 + 3;
const START: Token = FIRST_SPECIAL;
const END: Token = FIRST_SPECIAL + 1;
const TOOL: Token = FIRST_SPECIAL + 2;

/// Bytes and [`WORDS`]; reads the longest word it finds.
#[derive(Debug)]
struct Words;

impl Vocab for Words {
    fn tokenize(&self, text: &str, _: bool, special: bool) -> Result<Vec<Token>, TokenizeError> {
        let mut tokens = Vec::new();
        let mut rest = text.as_bytes();
        while let Some(byte) = rest.first() {
            let words = WORDS.iter().zip(256..).filter(|(word, token)| {
                rest.starts_with(word.as_bytes()) && (special || *token < FIRST_SPECIAL)
            });
            let (length, token) = words
                .map(|(word, token)| (word.len(), token))
                .max()
                .unwrap_or((1, Token::from(*byte)));
            tokens.push(token);
            rest = &rest[length..];
        }
        Ok(tokens)
    }

    fn piece(&self, token: Token, _: bool, out: &mut Vec<u8>) {
        match u8::try_from(token) {
            Ok(byte) => out.push(byte),
            Err(_) => out.extend_from_slice(WORDS[token as usize - 256].as_bytes()),
        }
    }

    fn is_eog(&self, token: Token) -> bool {
        token == END
    }

    fn is_control(&self, token: Token) -> bool {
        token == START || token == END
    }

    fn is_special(&self, token: Token) -> bool {
        token >= FIRST_SPECIAL
    }

    fn bos(&self) -> Option<Token> {
        None
    }

    fn eos(&self) -> Option<Token> {
        Some(END)
    }

    fn chat_template(&self, _: Option<&str>) -> Option<&str> {
        None
    }

    fn n_vocab(&self) -> usize {
        256 + WORDS.len()
    }

    fn context_length(&self) -> usize {
        1 << 20
    }

    fn model_name(&self) -> &'static str {
        "words"
    }
}

fn fresh(text: &str) -> Vec<Token> {
    Words.tokenize(text, false, true).expect("never fails")
}

fn partner(salt: &str) -> Partner {
    Partner {
        salt: salt.into(),
        adapters: Arc::default(),
    }
}

fn prompt(salt: &str, text: &str) -> TemplatedPrompt {
    TemplatedPrompt {
        text: text.to_owned(),
        partner: Some(partner(salt)),
        awaits_reply: true,
        ..TemplatedPrompt::default()
    }
}

fn recalled(history: &History, salt: &str, text: &str) -> TokenPrompt {
    history.recall(&Words, &prompt(salt, text), fresh(text))
}

/// A request and the reply to it.
fn say(history: &History, salt: &str, text: &str, reply: &[Token]) {
    let TokenPrompt { tokens, asked, .. } = recalled(history, salt, text);
    let asked = asked.expect("it awaits a reply");
    history.remember(&Words, &asked, tokens, reply);
}

fn tokens(text: &str) -> Vec<Token> {
    text.bytes().map(Token::from).collect()
}

/// The special tokens and the text before each.
fn places(tokens: &[Token]) -> Vec<(usize, Token)> {
    let mut bytes = Vec::new();
    let mut places = Vec::new();
    for token in tokens {
        if Words.is_special(*token) {
            places.push((String::from_utf8_lossy(&bytes).len(), *token));
        }
        Words.piece(*token, true, &mut bytes);
    }
    places
}

#[test]
fn a_reply_is_known_again_in_the_tokens_it_was_given_in() {
    let history = History::default();
    // An incomplete character, which a client gets as U+FFFD.
    let said = [tokens("ab"), vec![0xe2, 0x82]].concat();
    say(&history, "", "<s>ab\n", &said);
    let text = "<s>ab\nab\u{FFFD}<e>ab";
    let expected = [fresh("<s>ab\n"), said, fresh("<e>ab")].concat();
    assert_eq!(recalled(&history, "", text).tokens, expected);
    for (salt, text) in [
        // Another one's reply.
        ("other", text),
        // The text goes on in the same word.
        ("", "<s>ab\nab\u{FFFD}b<e>"),
        // Another conversation.
        ("", "<s>abb\nab\u{FFFD}<e>ab"),
    ] {
        assert_eq!(recalled(&history, salt, text).tokens, fresh(text), "{text}");
    }
    let other = TemplatedPrompt {
        partner: None,
        ..prompt("", text)
    };
    assert_eq!(
        history.recall(&Words, &other, fresh(text)).tokens,
        fresh(text)
    );
}

#[test]
fn a_reply_is_known_again_where_no_special_token_follows() {
    let history = History::default();
    let said = tokens("ab");
    say(&history, "", "x: ", &said);
    let text = "x: ab\n\nx: ab";
    let expected = [fresh("x: "), said, fresh("\n\nx: ab")].concat();
    assert_eq!(recalled(&history, "", text).tokens, expected);
    // The end of the reply is in one token with what follows.
    let text = "x: abb\n\nx: ab";
    assert_eq!(recalled(&history, "", text).tokens, fresh(text));
    // The turn is where it is in the new tokens.
    let prompt = TemplatedPrompt {
        last_turn: Some("x: ab\n\n".len()),
        ..prompt("", "x: ab\n\nx: ab")
    };
    let read = history.recall(&Words, &prompt, fresh(&prompt.text));
    assert_eq!(read.last_turn, Some(6));
}

#[test]
fn special_tokens_are_those_of_the_text() {
    for said in ["<e>", "<e>b<s>", "a<t>", "<t"] {
        let history = History::default();
        say(&history, "", "<s>", &tokens(said));
        for text in [format!("<s>{said}<e>"), format!("<s>{said}><e>")] {
            assert_eq!(recalled(&history, "", &text).tokens, fresh(&text), "{text}");
        }
    }
    // The end of the prompt and the reply spell one together.
    let history = History::default();
    say(&history, "", "<s><", &tokens("t>ab"));
    let text = "<s><t>ab<e>";
    assert_eq!(recalled(&history, "", text).tokens, fresh(text));
    // What the model itself chose is in the text as well.
    let history = History::default();
    let said = [vec![TOOL], tokens("ab")].concat();
    say(&history, "", "<s>", &said);
    let expected = [fresh("<s>"), said, fresh("<e>")].concat();
    assert_eq!(recalled(&history, "", "<s><t>ab<e>").tokens, expected);
    // A reply that goes on behind its end says no more than what comes before.
    let history = History::default();
    let said = [tokens("ab"), vec![END, START], tokens("ab")].concat();
    say(&history, "", "<s>", &said);
    let text = "<s>ab<e><s>ab<e>";
    let expected = [fresh("<s>"), tokens("ab"), fresh("<e><s>ab<e>")].concat();
    assert_eq!(recalled(&history, "", text).tokens, expected);
}

#[test]
fn the_last_turn_begins_behind_a_special_token() {
    let history = History::default();
    let turn = |text: &str, at: usize| {
        let prompt = TemplatedPrompt {
            last_turn: Some(at),
            ..prompt("", text)
        };
        history.recall(&Words, &prompt, fresh(text)).last_turn
    };
    let text = "<s>ab<e><s>b<e>";
    let tokens_before = |text: &str| Some(fresh(text).len() as u32);
    assert_eq!(
        turn(text, "<s>ab<e><s>".len()),
        tokens_before("<s>ab<e><s>")
    );
    // What stands between the token and the content may be read together with the content.
    assert_eq!(turn("<s>ab<e><s>abb<e>", 13), tokens_before("<s>ab<e><s>"));
    assert_eq!(turn("ab", 1), None);
    // Without special tokens before it.
    assert_eq!(turn("xyz:abb", 4), Some(4));
    assert_eq!(turn("xyab", 3), Some(2));
    // The reply that is recalled may have more tokens than its text, and moves the turn.
    say(&history, "", "<s>", &tokens("ab"));
    let at = "<s>ab<e><s>".len();
    let said = [fresh("<s>"), tokens("ab"), fresh("<e><s>")].concat();
    assert_eq!(turn(text, at), Some(said.len() as u32));
}

#[test]
fn a_prompt_that_ends_anywhere_leaves_nothing_behind() {
    let history = History::default();
    let anywhere = TemplatedPrompt {
        awaits_reply: false,
        ..prompt("", "<s>a")
    };
    let read = history.recall(&Words, &anywhere, fresh("<s>a"));
    assert_eq!(read.asked, None);
}

#[derive(Clone, Debug)]
struct Turn {
    salt: &'static str,
    /// How much of the last conversation of this salt it repeats, in special tokens, and what
    /// follows.
    repeats: usize,
    adds: String,
    reply: Vec<Token>,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let salt = prop::sample::select(vec!["", "one", "two"]);
    let adds = prop::collection::vec(
        prop::sample::select(vec!["a", "b", "\n", "<s>", "<e>", "<t>", "<", "e>"]),
        0..6,
    );
    let word = prop::sample::select(vec!["ab", "a", "b", "\n", "<e>", "<t>", "\u{e9}"]);
    let said = (word, any::<bool>()).prop_map(
        |(word, by_bytes)| {
            if by_bytes { tokens(word) } else { fresh(word) }
        },
    );
    let reply = prop::collection::vec(said, 0..5);
    let turn = (salt, 0..9usize, adds, reply).prop_map(|(salt, repeats, adds, reply)| Turn {
        salt,
        repeats,
        adds: adds.concat(),
        reply: reply.concat(),
    });
    prop::collection::vec(turn, 1..40)
}

proptest! {
    #[test]
    fn a_prompt_is_what_a_fresh_tokenizer_reads_but_for_replies_of_its_own_salt(turns in turns()) {
        let history = History::default();
        let salts = ["", "one", "two"];
        // What each salt would find without the others.
        let alone = salts.map(|_| History::default());
        // Texts that end with a reply, and all texts, of each salt.
        let mut replied: Vec<(&str, String)> = Vec::new();
        let mut last = String::new();
        for turn in turns {
            let kept = fresh(&last).into_iter().scan(0, |seen, token| {
                *seen += usize::from(Words.is_special(token));
                (*seen <= turn.repeats).then_some(token)
            });
            let mut bytes = Vec::new();
            kept.for_each(|token| Words.piece(token, true, &mut bytes));
            let text = format!("{}{}", String::from_utf8_lossy(&bytes), turn.adds);
            let fresh = fresh(&text);
            let read = recalled(&history, turn.salt, &text);
            prop_assert_eq!(places(&read.tokens), places(&fresh));
            let known = replied.iter().any(|(salt, known)| *salt == turn.salt && text.starts_with(known));
            if !known {
                prop_assert_eq!(&read.tokens, &fresh);
            }
            let own = salts.iter().position(|salt| *salt == turn.salt).expect("one of them");
            prop_assert_eq!(&recalled(&alone[own], turn.salt, &text), &read);
            for history in [&history, &alone[own]] {
                say(history, turn.salt, &text, &turn.reply);
            }
            let end = turn.reply.iter().position(|token| Words.is_control(*token));
            let mut bytes = Vec::new();
            for token in &turn.reply[..end.unwrap_or(turn.reply.len())] {
                Words.piece(*token, true, &mut bytes);
            }
            last = format!("{text}{}", String::from_utf8_lossy(&bytes));
            if !bytes.is_empty() {
                replied.push((turn.salt, last.clone()));
            }
            last.push_str("<e>");
        }
    }

    #[test]
    fn the_longest_text_is_found(
        texts in prop::collection::vec("[abé]{1,6}", 0..20),
        wanted in "[abé]{0,8}",
    ) {
        let mut kept = ReplyStore::default();
        for text in &texts {
            kept.insert(&partner(""), Arc::from(text.as_str()), known(1));
        }
        let longest = texts.iter().filter(|text| wanted.starts_with(*text)).map(String::len).max();
        let found = kept.longest_beginning(&partner(""), &wanted);
        prop_assert_eq!(found.map(|(length, _)| length), longest);
    }
}

fn known(tokens: usize) -> ReplyTokens {
    ReplyTokens {
        tokens: vec![0; tokens].into(),
        specials: [].into(),
    }
}

#[test]
fn old_texts_make_room() {
    let mut kept = ReplyStore::default();
    for text in ["a", "b", "c", "d"] {
        kept.insert(&partner(text), Arc::from(text), known(LIMIT / 12));
    }
    assert!(kept.bytes <= LIMIT);
    assert!(kept.longest_beginning(&partner("a"), "a").is_none());
    assert!(kept.longest_beginning(&partner("d"), "d").is_some());
    kept.shrink(0);
    assert_eq!((kept.bytes, kept.texts.len(), kept.order.len()), (0, 0, 0));
}
