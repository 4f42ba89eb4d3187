//! Graphs with tensor streams: the inputs and outputs of a graph, and the conversion between
//! tensors and packets.

mod declared;
mod ports;
mod response_cache;

pub(crate) use declared::ImageFormat;
use declared::TensorDeclaration;
pub(crate) use declared::TensorDeclarations;
pub(crate) use ports::{
    Port, foreign_input, input_name, input_stream, inputs, is_served, labels, max_batch_size,
    output_name, outputs, response_cache, takes_tensors, to_packet, to_tensor,
};
pub(crate) use response_cache::{AnswerKey, CacheUse, ResponseCache, key};
