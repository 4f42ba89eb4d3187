//! Prompts of texts with a gap.

use graphmill_llm::{GapMarks, Token, TokenizeError, Vocab};

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

#[test]
fn a_gap_is_marked_behind_the_begin_token_and_nothing_ends_it() {
    let marks = GapMarks {
        before: 311,
        after: 312,
        gap: 313,
    };
    let prompt = |bos| {
        marks
            .prompt(&Marked { bos }, "ab", "c", &|| true)
            .expect("short")
    };
    assert_eq!(prompt(None), [311, 97, 98, 312, 99, 313]);
    assert_eq!(prompt(Some(299)), [299, 311, 97, 98, 312, 99, 313]);
}
