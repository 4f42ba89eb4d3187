//! `Debug` for types with parts that cannot be shown, such as functions.

/// Implements `Debug` for a type with these of its fields.
macro_rules! show_fields {
    ($name:ident $(<$($of:ident),+>)? { $($field:ident),* }) => {
        impl $(<$($of),+>)? std::fmt::Debug for $name $(<$($of),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use show_fields;
