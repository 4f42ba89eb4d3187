//! What the model in this repository is asked.

pub(crate) const MESSAGES: [&str; 8] = [
    "Hello!",
    "What is OpenVINO?",
    "What is a side packet?",
    "Say this is a test",
    "Count from 1 to 5.",
    "Write a short story.",
    "What is 3 plus 4?",
    "List three colors.",
];
