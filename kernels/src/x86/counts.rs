//! Code for a few counts, in each of which the count is a constant.

/// Runs the code in which a count is a constant. It must be one of those that are listed.
macro_rules! with_count {
    ($count:expr, $name:ident in [$($number:literal)+], $code:expr) => {
        match $count {
            $($number => {
                const $name: usize = $number;
                $code
            })+
            count => unreachable!("no code for a count of {count}"),
        }
    };
}

pub(crate) use with_count;
