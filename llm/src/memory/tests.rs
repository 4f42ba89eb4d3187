use super::*;

fn pool(available_bytes: u64) -> Pool {
    Pool {
        name: "this machine".to_owned(),
        available_bytes: Some(available_bytes),
        weights_bytes: 400 << 20,
        draft_bytes: 0,
        projector_bytes: 0,
        state_bytes: 0,
        compute_bytes: 112 << 20,
        compute_bytes_per_cell: 0,
        prefix_bytes: 0,
        kv_share: 1.0,
    }
}

fn request(pool: Pool) -> CacheRequest {
    CacheRequest {
        ceiling_gb: 50,
        bytes_per_cell: 12_288,
        context: 32_768,
        context_required: false,
        max_sequences: 256,
        streams: None,
        pools: vec![pool],
    }
}

fn decided(cells: u64, bound: CacheLimit) -> CacheSize {
    let cells = cells as u32;
    CacheSize { cells, bound }
}

#[test]
fn a_ceiling_above_the_machine_gives_half_of_what_the_model_leaves() {
    let size = cache_size(&request(pool(16 * GIB + (512 << 20))));
    assert_eq!(size, Ok(decided(8 * GIB / 12_288, CacheLimit::Memory)));
}

#[test]
fn a_ceiling_above_what_sequences_can_use_gives_what_they_can_use() {
    let size = cache_size(&CacheRequest {
        context: 1_024,
        max_sequences: 8,
        ..request(pool(16 * GIB))
    });
    assert_eq!(size, Ok(decided(8_192, CacheLimit::Sequences)));
}

#[test]
fn a_low_ceiling_decides() {
    let size = cache_size(&CacheRequest {
        ceiling_gb: 1,
        ..request(pool(16 * GIB))
    });
    assert_eq!(size, Ok(decided(GIB / 12_288, CacheLimit::Ceiling)));
}

#[test]
fn the_default_holds_one_context_even_if_that_is_large() {
    let sized = |context| {
        cache_size(&CacheRequest {
            ceiling_gb: 0,
            context,
            ..request(pool(16 * GIB))
        })
    };
    assert_eq!(
        sized(4_096),
        Ok(decided(DEFAULT_BYTES / 12_288, CacheLimit::Default))
    );
    assert_eq!(sized(131_072), Ok(decided(131_072, CacheLimit::Default)));
}

#[test]
fn a_context_that_was_asked_for_and_does_not_fit_is_refused_with_the_arithmetic() {
    let refused = cache_size(&CacheRequest {
        context: 262_144,
        context_required: true,
        ..request(pool(2 * GIB))
    });
    assert_eq!(
        refused,
        Err(
            "weights 400 MiB + KV cache 3072 MiB (262144 cells of 12288 bytes) + compute 112 MiB = 3584 MiB, \
             and 2048 MiB are available on this machine: lower `max_context` to 131072"
                .to_owned()
        )
    );
    let fits = cache_size(&CacheRequest {
        context: 131_072,
        context_required: true,
        ..request(pool(2 * GIB))
    });
    assert_eq!(fits, Ok(decided(131_072, CacheLimit::Memory)));
}

#[test]
fn a_draft_model_takes_its_part() {
    let with_draft = |draft_bytes| {
        cache_size(&CacheRequest {
            context: 131_072,
            context_required: true,
            ..request(Pool {
                draft_bytes,
                ..pool(2 * GIB)
            })
        })
    };
    assert!(with_draft(0).is_ok());
    let message = with_draft(12 << 20).expect_err("too much by 12 MiB");
    assert!(
        message.contains(
            " + compute 112 MiB + draft model 12 MiB = 2060 MiB, and 2048 MiB are available"
        ),
        "{message}"
    );
    assert!(
        message.ends_with("lower `max_context` to 130048"),
        "{message}"
    );
}

#[test]
fn states_of_recurrent_layers_take_their_part() {
    let with_states = |state_bytes| {
        cache_size(&request(Pool {
            state_bytes,
            ..pool(2 * GIB)
        }))
    };
    // Of what weights and steps leave, the cache takes half of what is left beside them.
    assert_eq!(
        with_states(512 << 20),
        Ok(decided(GIB / 2 / 12_288, CacheLimit::Memory))
    );
    assert_eq!(
        with_states(2 * GIB),
        Err(
            "weights 400 MiB + KV cache 3 MiB (256 cells of 12288 bytes) + compute 112 MiB + recurrent states 2048 MiB = \
             2563 MiB, and 2048 MiB are available on this machine: lower `max_num_seqs` or `rollback_states`"
                .to_owned()
        )
    );
}

#[test]
fn what_a_step_needs_for_each_cell_is_part_of_the_sum() {
    let with_steps = |context| {
        cache_size(&CacheRequest {
            context,
            context_required: true,
            ..request(Pool {
                compute_bytes_per_cell: 4096,
                ..pool(2 * GIB)
            })
        })
    };
    assert_eq!(
        with_steps(131_072),
        Err(
            "weights 400 MiB + KV cache 1536 MiB (131072 cells of 12288 bytes) + compute 624 MiB = 2560 MiB, \
             and 2048 MiB are available on this machine: lower `max_context` to 98304"
                .to_owned()
        )
    );
    assert_eq!(with_steps(98_304), Ok(decided(98_304, CacheLimit::Memory)));
}

#[test]
fn memory_that_is_asked_for_finished_sequences_is_part_of_the_sum() {
    let with_prefixes = |available_bytes, prefix_bytes| {
        cache_size(&CacheRequest {
            context: 32_768,
            context_required: true,
            ..request(Pool {
                prefix_bytes,
                ..pool(available_bytes)
            })
        })
    };
    // 512 MiB of weights and buffers, 384 MiB for the context.
    assert_eq!(
        with_prefixes(2 * GIB, 3 * GIB),
        Err(
            "weights 400 MiB + KV cache 384 MiB (32768 cells of 12288 bytes) + compute 112 MiB + prefix cache 3072 MiB = \
             3968 MiB, and 2048 MiB are available on this machine: lower `prefix_cache_size` to 1.12"
                .to_owned()
        )
    );
    assert!(with_prefixes(2 * GIB, GIB).is_ok());
    // The cache takes half of what is left beside it.
    assert_eq!(
        with_prefixes(5 * GIB + GIB / 2, 2 * GIB),
        Ok(decided(3 * GIB / 2 / 12_288, CacheLimit::Memory))
    );
    // Without it the rest would not fit either.
    let message = with_prefixes(800 << 20, 1 << 20).expect_err("too much");
    assert!(
        message.ends_with("lower `max_context` to 24320"),
        "{message}"
    );
}

#[cfg(feature = "llama")]
#[test]
fn finished_sequences_have_an_eighth_of_what_is_left_by_default() {
    let left = pool(2 * GIB).left(GIB / 8192, 8192).expect("known");
    assert_eq!(default_prefix_bytes(left), GIB / 2 / 8);
    assert_eq!(pool(GIB).left(GIB / 8192, 8192), Some(0));
}

#[test]
fn streams_that_do_not_fit_say_how_many_would() {
    let refused = cache_size(&CacheRequest {
        context: 4_096,
        context_required: true,
        streams: Some(true),
        ..request(pool(2 * GIB))
    });
    let message = refused.expect_err("256 contexts do not fit");
    assert!(
        message.ends_with("lower `max_num_seqs` to 32, or set `kv_unified` to true"),
        "{message}"
    );
}

#[test]
fn weights_that_do_not_fit_are_refused_whatever_the_cache() {
    let message = cache_size(&request(pool(256 << 20))).expect_err("too large");
    assert!(
        message.contains("weights 400 MiB")
            && message.ends_with("use a smaller model, or one with fewer bits per weight"),
        "{message}"
    );
}

#[test]
fn the_smaller_of_two_memories_decides() {
    let gpu = Pool {
        name: "GPU.0".to_owned(),
        available_bytes: Some(2 * GIB),
        weights_bytes: GIB,
        draft_bytes: 0,
        projector_bytes: 0,
        state_bytes: 0,
        compute_bytes: 0,
        compute_bytes_per_cell: 0,
        prefix_bytes: 0,
        kv_share: 0.5,
    };
    let machine = Pool {
        kv_share: 0.5,
        ..pool(64 * GIB)
    };
    let size = cache_size(&CacheRequest {
        pools: vec![machine, gpu],
        ..request(pool(0))
    });
    assert_eq!(size, Ok(decided(GIB / 12_288, CacheLimit::Memory)));
}
