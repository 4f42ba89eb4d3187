//! Prompts of texts with a gap.

use graphmill_llm::{GapMarks, NamedText, Token, TokenizeError, Vocab};

/// Bytes, a begin token and three marks.
#[derive(Debug)]
struct Marked {
    bos: Option<Token>,
}

impl Vocab for Marked {
    fn tokenize(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<Token>, TokenizeError> {
        assert!(!parse_special, "what a user wrote is text");
        let begin = self.bos.filter(|_| add_special);
        let end = (add_special).then_some(300);
        let bytes = text.bytes().map(Token::from);
        Ok(begin.into_iter().chain(bytes).chain(end).collect())
    }

    fn piece(&self, _: Token, _: bool, _: &mut Vec<u8>) {}

    fn is_eog(&self, token: Token) -> bool {
        token == 300
    }

    fn is_control(&self, token: Token) -> bool {
        token > 255
    }

    fn bos(&self) -> Option<Token> {
        self.bos
    }

    fn eos(&self) -> Option<Token> {
        Some(300)
    }

    fn pad(&self) -> Option<Token> {
        None
    }

    fn chat_template(&self, _: Option<&str>) -> Option<&str> {
        None
    }

    fn n_vocab(&self) -> usize {
        400
    }

    fn context_length(&self) -> usize {
        100
    }

    fn model_name(&self) -> &'static str {
        "marked"
    }
}

const MARKS: GapMarks = GapMarks {
    before: 311,
    after: 312,
    gap: 313,
    repository: None,
    file: None,
};

#[test]
fn a_gap_is_marked_behind_the_begin_token_and_nothing_ends_it() {
    let prompt = |bos| {
        MARKS
            .prompt(&Marked { bos }, &[], ("ab", "c"), &|| true)
            .expect("short")
    };
    assert_eq!(prompt(None), [311, 97, 98, 312, 99, 313]);
    assert_eq!(prompt(Some(299)), [299, 311, 97, 98, 312, 99, 313]);
}

#[test]
fn other_files_come_before_it_with_their_names_where_the_model_knows_files() {
    let file = |name: &str, text: &str| NamedText {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let context = [file("a.rs", "x"), file("b.rs", "y")];
    let prompt = |marks: GapMarks| {
        marks
            .prompt(&Marked { bos: Some(299) }, &context, ("ab", "c"), &|| true)
            .expect("short")
    };
    let tokens = |parts: &[(Option<Token>, &str)]| -> Vec<Token> {
        let parts = parts.iter().flat_map(|(mark, text)| {
            mark.iter()
                .copied()
                .chain(text.bytes().map(Token::from))
                .collect::<Vec<_>>()
        });
        parts.collect()
    };
    let gap = [(Some(311), "ab"), (Some(312), "c"), (Some(313), "")];
    let with_files = GapMarks {
        repository: Some(314),
        file: Some(315),
        ..MARKS
    };
    let before = [
        (Some(299), ""),
        (Some(314), "myproject\n"),
        (Some(315), "a.rs\nx"),
        (Some(315), "b.rs\ny"),
        (Some(315), "filename\n"),
    ];
    let expected = tokens(&[&before[..], &gap].concat());
    assert_eq!(prompt(with_files), expected);
    let before = [
        (Some(299), ""),
        (None, "\n\n--- snippet ---\n\nx"),
        (None, "\n\n--- snippet ---\n\ny"),
    ];
    let expected = tokens(&[&before[..], &gap].concat());
    assert_eq!(prompt(MARKS), expected);
}
