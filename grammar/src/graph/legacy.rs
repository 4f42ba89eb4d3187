//! The predecessors of calculators with side packets: generators, factories, status handlers.

use super::options::Extensions;
use super::port::PortSpec;
use super::table::message;
use crate::span::Spanned;

message! {
    /// A packet generator: makes side packets from side packets before the graph runs.
    pub struct PacketGeneratorConfig = "PacketGeneratorConfig" {
        /// Its registered type.
        "packet_generator" packet_generator: Option<Spanned<String>>;
        /// Side packets that it takes.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Side packets that it makes.
        "output_side_packet" output_side_packet: Vec<PortSpec>;
        /// Its options.
        "options" options: Option<Extensions>;
        /// Old name of `input_side_packet`.
        "external_input" external_input: Vec<Spanned<String>>, deprecated = "use `input_side_packet`";
        /// Old name of `output_side_packet`.
        "external_output" external_output: Vec<Spanned<String>>, deprecated = "use `output_side_packet`";
    }
}

message! {
    /// A packet factory: makes a side packet for each run.
    pub struct PacketFactoryConfig = "PacketFactoryConfig" {
        /// Its registered type.
        "packet_factory" packet_factory: Option<Spanned<String>>;
        /// The side packet that it makes.
        "output_side_packet" output_side_packet: Option<Spanned<String>>;
        /// Its options.
        "options" options: Option<Extensions>;
        /// Old name of `output_side_packet`.
        "external_output" external_output: Option<Spanned<String>>, deprecated = "use `output_side_packet`";
    }
}

message! {
    /// A status handler: is called with a run's status before and after it.
    pub struct StatusHandlerConfig = "StatusHandlerConfig" {
        /// Its registered type.
        "status_handler" status_handler: Option<Spanned<String>>;
        /// Side packets that it takes.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Its options.
        "options" options: Option<Extensions>;
        /// Old name of `input_side_packet`.
        "external_input" external_input: Vec<Spanned<String>>, deprecated = "use `input_side_packet`";
    }
}
