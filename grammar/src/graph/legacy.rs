//! The predecessors of calculators with side packets: generators, factories, status handlers.

use super::options::Extensions;
use super::port::PortSpec;
use super::table::message;
use crate::span::Spanned;

message! {
    /// A packet generator, which makes side packets from side packets before the graph runs.
    pub struct PacketGeneratorConfig = "PacketGeneratorConfig" {
        /// Registered type of the generator.
        "packet_generator" packet_generator: Option<Spanned<String>>;
        /// Input side packets of the generator.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Output side packets of the generator.
        "output_side_packet" output_side_packet: Vec<PortSpec>;
        /// Options of the generator in extension form.
        "options" options: Option<Extensions>;
        /// Deprecated spelling of the field `input_side_packet`.
        "external_input" external_input: Vec<Spanned<String>>, deprecated = "use `input_side_packet`";
        /// Deprecated spelling of the field `output_side_packet`.
        "external_output" external_output: Vec<Spanned<String>>, deprecated = "use `output_side_packet`";
    }
}

message! {
    /// A packet factory, which makes a side packet for each run.
    pub struct PacketFactoryConfig = "PacketFactoryConfig" {
        /// Registered type of the factory.
        "packet_factory" packet_factory: Option<Spanned<String>>;
        /// Name of the side packet that it makes.
        "output_side_packet" output_side_packet: Option<Spanned<String>>;
        /// Options of the factory in extension form.
        "options" options: Option<Extensions>;
        /// Deprecated spelling of the field `output_side_packet`.
        "external_output" external_output: Option<Spanned<String>>, deprecated = "use `output_side_packet`";
    }
}

message! {
    /// A status handler, which is called with a run's status before and after the run.
    pub struct StatusHandlerConfig = "StatusHandlerConfig" {
        /// Registered type of the handler.
        "status_handler" status_handler: Option<Spanned<String>>;
        /// Input side packets of the handler.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Options of the handler in extension form.
        "options" options: Option<Extensions>;
        /// Deprecated spelling of the field `input_side_packet`.
        "external_input" external_input: Vec<Spanned<String>>, deprecated = "use `input_side_packet`";
    }
}
