//! `GM02xx`, second part: the strings that name streams and side packets, `TAG:index:name`.

codes! {
    /// A string that is not a port.
    BAD_PORT = 220, "malformed port" {
        explanation: "A port is `name`, `TAG:name` or `TAG:index:name`, without spaces: a tag in capital letters, an index from 0, and the name \
                      of a stream or side packet in lower case.",
        wrong: "node { calculator: \"X\" input_stream: \"A::in\" }",
        right: "node { calculator: \"X\" input_stream: \"A:in\" }",
    }

    /// A name that is not allowed for streams and side packets.
    BAD_STREAM_NAME = 221, "malformed stream name" {
        explanation: "Names of streams and side packets begin with a lower-case letter or `_` and go on with lower-case letters, digits and `_`.",
        wrong: "input_stream: \"IMAGE:inputImage\"",
        right: "input_stream: \"IMAGE:input_image\"",
    }

    /// A tag with characters that are not allowed.
    BAD_TAG = 222, "malformed tag" {
        explanation: "Tags begin with a capital letter or `_` and go on with capital letters, digits and `_`.",
        wrong: "node { calculator: \"X\" input_stream: \"image:in\" }",
        right: "node { calculator: \"X\" input_stream: \"IMAGE:in\" }",
    }

    /// An index that is not a number, or too large.
    BAD_INDEX = 223, "malformed index" {
        explanation: "The index between tag and name is a decimal number from 0 to 10000 without leading zeros.",
        wrong: "node { calculator: \"X\" input_stream: \"A:00:in\" }",
        right: "node { calculator: \"X\" input_stream: \"A:0:in\" }",
    }

    /// Two ports with the same tag and index.
    DUPLICATE_PORT = 224, "port given twice" {
        explanation: "Each tag and index names one port. `TAG:name` is index 0 and does not count up: the second stream of a tag is written \
                      `TAG:1:name`. Only ports without a tag are numbered by their order.",
        wrong: "node { calculator: \"X\" input_stream: \"A:a\" input_stream: \"A:b\" }",
        right: "node { calculator: \"X\" input_stream: \"A:0:a\" input_stream: \"A:1:b\" }",
    }

    /// A gap in a tag's indexes.
    MISSING_INDEX = 225, "gap in the indexes of a tag" {
        explanation: "The indexes of a tag begin at 0 and have no gaps. They may come in any order.",
        wrong: "node { calculator: \"X\" input_stream: \"A:0:a\" input_stream: \"A:2:b\" }",
        right: "node { calculator: \"X\" input_stream: \"A:0:a\" input_stream: \"A:1:b\" }",
    }

    /// A string that is not a reference to a port.
    BAD_TAG_INDEX = 226, "malformed reference to a port" {
        explanation: "A port of a node is referred to by tag and index, `TAG`, `TAG:1`, or by index alone if it has no tag, `:1`. The stream's \
                      name is not part of it.",
        wrong: "node { calculator: \"X\" input_stream: \"LOOP:back\" input_stream_info { tag_index: \"LOOP:back\" back_edge: true } }",
        right: "node { calculator: \"X\" input_stream: \"LOOP:back\" input_stream_info { tag_index: \"LOOP\" back_edge: true } }",
    }
}
