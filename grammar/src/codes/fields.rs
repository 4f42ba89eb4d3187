//! `GM02xx`, first part: fields and their values, in the graph's own messages and in options of
//! calculators.

codes! {
    /// A field that the message does not have.
    UNKNOWN_FIELD = 201, "unknown field" {
        explanation: "The message has no field of this name. If there is a field with a similar name, the hint names it.",
        wrong: "node { calculater: \"PassThroughCalculator\" }",
        right: "node { calculator: \"PassThroughCalculator\" }",
    }

    /// A second value for a field that takes one value.
    DUPLICATE_FIELD = 202, "field given twice" {
        explanation: "This field takes one value. Remove one of the two; both places are shown.",
        wrong: "num_threads: 1 num_threads: 2",
        right: "num_threads: 2",
    }

    /// A value of another type.
    WRONG_TYPE = 203, "wrong type of value" {
        explanation: "The field takes another type of value. Strings are quoted; numbers, `true`, `false` and names of enum values are not.",
        wrong: "num_threads: \"4\"",
        right: "num_threads: 4",
    }

    /// A number that the field cannot hold.
    OUT_OF_RANGE = 204, "number out of range" {
        explanation: "The number does not fit into the field's type. The label shows the range.",
        wrong: "max_queue_size: 3000000000",
        right: "max_queue_size: 300",
    }

    /// A list for a field that takes one value.
    LIST_FOR_SINGLE = 205, "list for a single value" {
        explanation: "Only repeated fields take a list. This one takes a single value.",
        wrong: "num_threads: [1, 2]",
        right: "num_threads: 2",
    }

    /// A word that is not a value of the enum.
    UNKNOWN_ENUM_VALUE = 206, "unknown enum value" {
        explanation: "The field takes one of a fixed set of words, written without quotes. This value is not in the set.",
        wrong: "executor { options { [mediapipe.ThreadPoolExecutorOptions.ext] { require_processor_performance: FAST } } }",
        right: "executor { options { [mediapipe.ThreadPoolExecutorOptions.ext] { require_processor_performance: HIGH } } }",
    }

    /// A field that must be given.
    MISSING_FIELD = 207, "missing field" {
        explanation: "The message requires this field, and has no default for it.",
        wrong: "node { input_stream: \"in\" }",
        right: "node { calculator: \"PassThroughCalculator\" input_stream: \"in\" }",
    }

    /// A string whose escapes produce bytes that are not text.
    NOT_UTF8 = 208, "string is not UTF-8" {
        explanation: "The escapes in this string produce bytes that are not UTF-8 text. Only fields of type `bytes` may hold such bytes. Write the \
                      character itself, or `\\u` and its four hexadecimal digits.",
        wrong: "node { calculator: \"caf\\xe9\" }",
        right: "node { calculator: \"caf\\u00e9\" }",
    }

    /// A field that has been replaced, or has no effect.
    DEPRECATED_FIELD = 209, "deprecated field" {
        explanation: "The field is accepted so that old files load, but it has been replaced or has no effect. The hint says what to do instead.",
        wrong: "node { calculator: \"PassThroughCalculator\" external_input: \"x\" }",
        right: "node { calculator: \"PassThroughCalculator\" input_side_packet: \"x\" }",
    }

    /// A value of the right type that the field does not allow.
    INVALID_VALUE = 210, "invalid value" {
        explanation: "The value has the right type, but the field does not allow it. The headline says what is wrong.",
        wrong: "node { calculator: \"PassThroughCalculator\" option_value: \"threshold\" }",
        right: "node { calculator: \"PassThroughCalculator\" option_value: \"threshold:options/threshold\" }",
    }

    /// An `Any` name in an extensible message, or an extension in an `Any`.
    MISPLACED_BRACKET_NAME = 211, "options in the wrong form" {
        explanation: "`options` takes extensions, `[mediapipe.X.ext] { .. }`; `node_options` and `graph_options` take messages with a type URL, \
                      `[type.googleapis.com/mediapipe.X] { .. }`, one each.",
        wrong: "node { calculator: \"GateCalculator\" node_options { [mediapipe.GateCalculatorOptions.ext] { } } }",
        right: "node { calculator: \"GateCalculator\" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { } } }",
    }

    /// Two option messages of the same type.
    DUPLICATE_OPTIONS = 212, "options given twice" {
        explanation: "Options of one type may be given once. Join the two messages, or remove one.",
        wrong: "node { calculator: \"GateCalculator\" options { [mediapipe.GateCalculatorOptions.ext] { allow: true } \
                [mediapipe.GateCalculatorOptions.ext] { allow: false } } }",
        right: "node { calculator: \"GateCalculator\" options { [mediapipe.GateCalculatorOptions.ext] { allow: true } } }",
    }

    /// An `Any` with serialized bytes.
    SERIALIZED_ANY = 213, "serialized options" {
        explanation: "The options are given as `type_url` and serialized bytes in `value`. Bytes cannot be checked or shown; write the message \
                      out: `[type.googleapis.com/mediapipe.X] { .. }`.",
        wrong: "node { calculator: \"GateCalculator\" node_options { type_url: \"type.googleapis.com/mediapipe.GateCalculatorOptions\" value: \"\\020\\001\" } }",
        right: "node { calculator: \"GateCalculator\" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { allow: true } } }",
    }

    /// A text-format file of another kind.
    NOT_A_GRAPH = 214, "not a graph file" {
        explanation: "None of the fields in the file is a field of a graph, or nearly all of it is no field at all. It is probably another kind of message, or \
                      another kind of file.",
        wrong: "detections { score: 0.5 }",
        right: "node { calculator: \"PassThroughCalculator\" }",
    }
}
