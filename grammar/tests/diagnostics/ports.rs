//! Names, tags and indexes of ports and streams.

use super::graph;

#[test]
fn malformed_ports() {
    check!(
        r#"input_stream: "A::in"
input_stream: "VIDEO:0:frame:x"
output_stream: ""
output_stream: ":0:out"
"#,
        @r#"
        error[GM0220]: `A::in` is not a port
         --> graph.pbtxt:1:16
          |
        1 | input_stream: "A::in"
          |                ^^^^^ no index between the colons
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`

        error[GM0220]: `VIDEO:0:frame:x` is not a port
         --> graph.pbtxt:2:16
          |
        2 | input_stream: "VIDEO:0:frame:x"
          |                ^^^^^^^^^^^^^^^ more than two colons
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`

        error[GM0220]: `` is not a port
         --> graph.pbtxt:3:16
          |
        3 | output_stream: ""
          |                ^^ the string is empty
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`

        error[GM0220]: `:0:out` is not a port
         --> graph.pbtxt:4:17
          |
        4 | output_stream: ":0:out"
          |                 ^^^^^^ no tag before the first colon
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`
        "#
    );
}

#[test]
fn malformed_names_tags_and_indexes() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "IMAGE:inputImage"
  input_stream: "video:frames"
  input_stream: "A:01:a"
  output_stream: "1st"
}
"#,
        @r#"
        error[GM0221]: `inputImage` is not a name of a stream or side packet
         --> graph.pbtxt:3:24
          |
        3 |   input_stream: "IMAGE:inputImage"
          |                        ^^^^^^^^^^ names are lower-case letters, digits and `_`, and begin with no digit
          |
        help: write `input_image`
          |
        3 -   input_stream: "IMAGE:inputImage"
        3 +   input_stream: "IMAGE:input_image"
          |

        error[GM0222]: `video` is not a tag
         --> graph.pbtxt:4:18
          |
        4 |   input_stream: "video:frames"
          |                  ^^^^^ tags are capital letters, digits and `_`, and begin with no digit
          |
        help: write `VIDEO`
          |
        4 -   input_stream: "video:frames"
        4 +   input_stream: "VIDEO:frames"
          |

        error[GM0223]: `01` is not an index
         --> graph.pbtxt:5:20
          |
        5 |   input_stream: "A:01:a"
          |                    ^^ expected a number from 0 to 10000 without leading zeros

        error[GM0221]: `1st` is not a name of a stream or side packet
         --> graph.pbtxt:6:19
          |
        6 |   output_stream: "1st"
          |                   ^^^ names are lower-case letters, digits and `_`, and begin with no digit
        "#
    );
}

#[test]
fn a_place_inside_joined_and_escaped_strings() {
    check!(
        r#"input_stream: "IMA\x47E:" 'in' "put Image""#,
        @r#"
        error[GM0221]: `input Image` is not a name of a stream or side packet
         --> graph.pbtxt:1:28
          |
        1 | input_stream: "IMA\x47E:" 'in' "put Image"
          |                            ^^^^^^^^^^^^^^ names are lower-case letters, digits and `_`, and begin with no digit
          |
          = help: write `input_image`
        "#
    );
}

#[test]
fn a_port_twice() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "DATA:a"
  input_stream: "DATA:b"
}
"#,
        @r#"
        error[GM0224]: index 0 of tag `DATA` is given twice
         --> graph.pbtxt:4:18
          |
        3 |   input_stream: "DATA:a"
          |                  ------ first given here
        4 |   input_stream: "DATA:b"
          |                  ^^^^^^ given again here
          |
        help: give it the next free index: `DATA:1:b`
          |
        4 |   input_stream: "DATA:1:b"
          |                       ++
        "#
    );
}

#[test]
fn a_gap_in_the_indexes() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "DATA:0:a"
  input_stream: "DATA:2:b"
}
"#,
        @r#"
        error[GM0225]: tag `DATA` has index 2 but no index 1
         --> graph.pbtxt:4:18
          |
        4 |   input_stream: "DATA:2:b"
          |                  ^^^^^^^^ index 1 is missing
          |
          = help: the indexes of a tag begin at 0 and have no gaps: is this `DATA:1:b`?
        "#
    );
}

#[test]
fn a_stream_name_where_a_port_is_referred_to() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "LOOP:loop"
  input_stream_info { tag_index: "LOOP:loop" back_edge: true }
}
"#,
        @r#"
        error[GM0226]: `LOOP:loop` is not a reference to a port
         --> graph.pbtxt:4:40
          |
        4 |   input_stream_info { tag_index: "LOOP:loop" back_edge: true }
          |                                        ^^^^ expected an index here, not a name
          |
          = help: write the port's tag, `TAG`, its tag and index, `TAG:1`, or `:1` where it has no tag
        "#
    );
}

#[test]
fn an_option_value_without_a_source() {
    check!(
        r#"node {
  calculator: "A"
  option_value: "threshold"
}
"#,
        @r#"
        error[GM0210]: `option_value` is not of the form `field:source`
         --> graph.pbtxt:3:17
          |
        3 |   option_value: "threshold"
          |                 ^^^^^^^^^^^ expected `node_field:graph_field`
          |
          = help: write the node's option field, a colon, and the graph's option field: `"threshold:options/threshold"`
        "#
    );
}
