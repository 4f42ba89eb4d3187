//! `GM01xx`: the text is not valid protobuf text format.

codes! {
    /// Text in the place of a field.
    UNEXPECTED_TEXT = 101, "unexpected text" {
        explanation: "A message is a sequence of fields, each a name, a colon and a value: `name: \"x\"`, or a name and a message: \
                      `node { .. }`. The marked text is none of these. The rest of its line is skipped; what follows is checked as usual.",
        wrong: "node { calculator = \"PassThroughCalculator\" }",
        right: "node { calculator: \"PassThroughCalculator\" }",
    }

    /// An opening `{`, `<` or `[` that is never closed.
    UNCLOSED_DELIMITER = 102, "unclosed delimiter" {
        explanation: "Every `{`, `<` and `[` needs its `}`, `>` or `]`. The place where the counterpart is missing is often not the end of \
                      the file: where the indentation tells that a later delimiter was meant for this one, that place is shown as well.",
        wrong: "node { calculator: \"PassThroughCalculator\"",
        right: "node { calculator: \"PassThroughCalculator\" }",
    }

    /// A closing `}`, `>` or `]` that was never opened.
    UNMATCHED_DELIMITER = 103, "unmatched closing delimiter" {
        explanation: "The marked delimiter closes nothing. Either it is one too many, or the opening one is missing.",
        wrong: "node { calculator: \"PassThroughCalculator\" } }",
        right: "node { calculator: \"PassThroughCalculator\" }",
    }

    /// Messages nested beyond the limit.
    TOO_DEEP = 104, "message nested too deeply" {
        explanation: "Messages and lists may be nested 100 deep, which is also the limit of protobuf's own parsers. No real graph comes \
                      near it; a file that does is damaged or hostile.",
        wrong: "a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a",
        right: "node { calculator: \"PassThroughCalculator\" }",
    }

    /// A scalar field without its colon.
    MISSING_COLON = 105, "missing colon" {
        explanation: "A colon is required between a field's name and a string, a number, a word or a list of these. Before a message \
                      it may be left out.",
        wrong: "input_stream \"in\"",
        right: "input_stream: \"in\"",
    }

    /// A field name without a value.
    MISSING_VALUE = 106, "field without a value" {
        explanation: "A field's name must be followed by a value. To leave a field unset, leave out its name as well.",
        wrong: "node { calculator: \"PassThroughCalculator\" name: }",
        right: "node { calculator: \"PassThroughCalculator\" name: \"first\" }",
    }

    /// A message or list without a field name.
    MISSING_NAME = 107, "value without a field name" {
        explanation: "A message or a list can only be the value of a field, so a field's name must stand before it.",
        wrong: "{ calculator: \"PassThroughCalculator\" }",
        right: "node { calculator: \"PassThroughCalculator\" }",
    }

    /// A `,` or `;` in the wrong place.
    EXTRA_SEPARATOR = 108, "separator without a field" {
        explanation: "One `,` or `;` may follow a field. A second one, or one before the first field, separates nothing.",
        wrong: "input_stream: \"in\",, output_stream: \"out\"",
        right: "input_stream: \"in\", output_stream: \"out\"",
    }

    /// A list with a missing or additional comma.
    BAD_LIST = 109, "malformed list" {
        explanation: "A list is `[`, values with one comma between each two, and `]`. A list contains no list, and no comma follows the \
                      last value.",
        wrong: "input_stream: [\"a\" , \"b\", ]",
        right: "input_stream: [\"a\" , \"b\"]",
    }

    /// A string that does not end on its line.
    UNTERMINATED_STRING = 110, "unterminated string" {
        explanation: "A string ends with the quote it began with, on the same line. To write a long text, put several strings after one \
                      another: they are joined. To write a line break, write `\\n`.",
        wrong: "input_stream: \"in\nnode { calculator: \"PassThroughCalculator\" }",
        right: "input_stream: \"in\"\nnode { calculator: \"PassThroughCalculator\" }",
    }

    /// A backslash with an unknown character after it.
    BAD_ESCAPE = 111, "invalid escape sequence" {
        explanation: "Escapes are `\\a \\b \\f \\n \\r \\t \\v \\? \\\\ \\' \\\"`, one to three octal digits, `\\x` with one or two hexadecimal \
                      digits, `\\u` with four and `\\U` with eight (at most `0010FFFF`). A backslash itself is written `\\\\`.",
        wrong: r#"node { calculator: "PassThroughCalculator" name: "C:\models" }"#,
        right: r#"node { calculator: "PassThroughCalculator" name: "C:\\models" }"#,
    }

    /// A text that begins like a number.
    BAD_NUMBER = 112, "malformed number" {
        explanation: "An integer is decimal (`10`), octal (a leading zero: `017`) or hexadecimal (`0x1F`). A floating-point number has a \
                      point, an exponent or an `f`: `.5`, `1.`, `1e-3`, `10f`. Letters directly after a number are an error.",
        wrong: "num_threads: 09",
        right: "num_threads: 9",
    }

    /// A name in brackets that is neither an extension nor the name of an `Any`.
    BAD_BRACKET_NAME = 113, "malformed name in brackets" {
        explanation: "A name in brackets is either an extension's full name, `[mediapipe.GateCalculatorOptions.ext]`, or a URL prefix, a slash \
                      and a message's full name, `[type.googleapis.com/mediapipe.GateCalculatorOptions]`.",
        wrong: "node { calculator: \"GateCalculator\" options { [mediapipe..ext] { } } }",
        right: "node { calculator: \"GateCalculator\" options { [mediapipe.GateCalculatorOptions.ext] { } } }",
    }

    /// A comment of another language.
    FOREIGN_COMMENT = 114, "comment of another language" {
        explanation: "A comment begins with `#` and goes to the end of the line. `//` and `/* */` are not comments.",
        wrong: "// the first node\nnode { calculator: \"PassThroughCalculator\" }",
        right: "# the first node\nnode { calculator: \"PassThroughCalculator\" }",
    }

    /// A file that cannot be read as text.
    UNUSABLE_FILE = 115, "unusable file" {
        explanation: "A graph file is UTF-8 text of at most 64 MiB. The file is too long, or is no UTF-8 text: a \
                      binary file, or a text in another encoding.",
        wrong: "",
        right: "",
    }

    /// The end of a list of errors that was cut.
    TOO_MANY_ERRORS = 116, "too many errors" {
        explanation: "Only the first hundred errors of a file are listed. A file with that many is usually not a graph file.",
        wrong: "",
        right: "",
    }
}
