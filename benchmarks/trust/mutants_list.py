"""The mutants of `mutants.py`: what is replaced where, what that breaks, which tests should notice.

All of them change what jumok computes, keeps or promises; none is a crash at import. One that would
change nothing that can be seen does not belong here.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One text of one file and what stands there instead."""

    file: str
    old: str
    new: str
    breaks: str
    killers: tuple[str, ...]  # tests that should notice, the likeliest first


_OWN: Mapping[str, tuple[str, ...]] = {
    "nn/attention": ("nn/test_attention.py", "nn/test_hooks.py", "models/test_kv_cache.py"),
    "nn/bmm_attention": ("nn/test_attention.py", "nn/test_layer.py"),
    "nn/masks": ("nn/test_masks.py", "models/test_causality.py", "models/test_kv_cache.py"),
    "nn/cache": (
        "nn/test_cache.py",
        "models/test_kv_cache.py",
        "decoding/incremental/test_decoder.py",
    ),
    "nn/dropout": ("nn/test_dropout.py",),
    "nn/layer": ("nn/test_layer.py", "models/test_kv_cache.py", "models/test_padding.py"),
    "nn/stack": ("nn/test_stack.py", "models/test_kv_cache.py"),
    "nn/positions": ("nn/test_positions.py", "models/test_kv_cache.py"),
    "models/decoder": ("models/test_kv_cache.py",),
    "decoding/beam": ("decoding/test_beam.py",),
    "decoding/incremental/decoder": (
        "decoding/incremental/test_decoder.py",
        "decoding/test_generate.py",
    ),
    "decoding/generate": ("decoding/test_generate.py",),
    "decoding/sampling": ("decoding/test_sampling.py",),
    "decoding/incremental/sliding_window": ("decoding/incremental/test_sliding_window.py",),
    "decoding/speculative": ("decoding/test_speculative.py",),
    "decoding/build": ("decoding/test_build.py", "decoding/constraints/test_constraint.py"),
    "decoding/stopping": ("decoding/test_generate.py", "decoding/test_beam.py"),
    "decoding/processors": ("decoding/test_processors.py",),
    "atomic_io": ("test_atomic_io.py", "training/checkpoints/test_store.py"),
    "safetensors_io": ("test_safetensors_io.py",),
    "training/checkpoints/store": (
        "training/checkpoints/test_store.py",
        "training/test_torture.py",
    ),
    "training/checkpoints/checkpoint": (
        "training/checkpoints/test_store.py",
        "training/test_torture.py",
    ),
    "training/checkpoints/manifest": (
        "training/checkpoints/test_store.py",
        "training/test_torture.py",
    ),
    "training/checkpoints/async_writer": ("training/checkpoints/test_async_writer.py",),
    "training/lock": ("training/test_lock.py",),
    "training/ema": ("training/test_ema.py",),
    "training/optimizer": ("training/test_optimizer.py",),
    "seeding": ("test_seeding.py",),
    "training/schedules": ("training/test_schedules.py",),
    "training/bad_steps": ("training/test_trainer.py",),
    "training/trainer": ("training/test_trainer.py",),
    "training/state": ("training/test_state.py",),
    "nn/losses": ("nn/test_losses.py",),
    "models/heads": ("models/test_heads.py",),
    "decoding/alignment": ("decoding/incremental/test_decoder.py",),
    "tasks/jobs/subword_sampling": ("tasks/jobs/test_subword_sampling.py",),
    "tasks/jobs/sequence_classification": (
        "tasks/test_classification.py",
        "tasks/test_regression.py",
    ),
    "tasks/jobs/token_classification": ("tasks/test_token_classification.py",),
    "tasks/jobs/seq2seq": ("tasks/test_seq2seq.py",),
    "tasks/jobs/causal_lm": ("tasks/test_causal_lm.py",),
    "tasks/runs/run": ("tasks/runs/test_run.py",),
}


def own_tests(file: str) -> tuple[str, ...]:
    """The test files of a module."""
    name = file.removeprefix("src/jumok/").removesuffix(".py")
    return tuple(f"tests/{test}" for test in _OWN[name])


def _of(name: str, killers: str, *rows: tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    """Mutants of one module: old, new, what it breaks, tests of `killers` or paths of others."""
    return tuple(
        Mutant(
            f"src/jumok/{name}.py",
            old,
            new,
            breaks,
            tuple(
                f"tests/{test}" if "/" in test or "::" in test else f"tests/{killers}::{test}"
                for test in tests.split()
            ),
        )
        for old, new, breaks, tests in rows
    )


ATTENTION = _of(
    "nn/attention",
    "nn/test_attention.py",
    (
        "self.scale = d_head**-0.5 if scale is None",
        "self.scale = 1.0 if scale is None",
        "scores are not divided by sqrt(d_head)",
        "test_the_scale_is_one_over_the_root_of_a_heads_width",
    ),
    (
        "self.scale = d_head**-0.5 if scale is None",
        "self.scale = d_model**-0.5 if scale is None",
        "scores are divided by the root of the model's width",
        "test_the_scale_is_one_over_the_root_of_a_heads_width",
    ),
    (
        "return scores if bias is None else scores + bias",
        "return scores if bias is None else scores - bias",
        "the written-out way takes the bias off",
        "test_all_three_implementations_agree test_values_and_gradients_agree",
    ),
    (
        "return scores if bias is None else scores + bias",
        "return scores",
        "the written-out way forgets the bias",
        "test_all_three_implementations_agree test_values_and_gradients_agree",
    ),
    (
        "lowest).softmax(-1).masked_fill(~allowed, 0)",
        "lowest).softmax(-1)",
        "a query that may see nothing sees the mean of everything",
        "test_a_fully_masked_row_is_zero_with_finite_gradients test_rows_sum_to_one_or_zero",
    ),
    (
        "lowest = torch.finfo(scores.dtype).min  #",
        "lowest = 0.0  #",
        "hidden scores are 0 before the softmax, not the lowest number",
        "test_rows_sum_to_one_or_zero test_all_three_implementations_agree",
    ),
    (
        "scores.masked_fill(~allowed, lowest)",
        "scores.masked_fill(allowed, lowest)",
        "True means hidden in the written-out way",
        "test_rows_sum_to_one_or_zero test_all_three_implementations_agree",
    ),
    (
        "(q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) * scale",
        "(q @ k.mT) * scale",
        "half types are summed in half",
        "test_half_precision_is_summed_in_float32",
    ),
    (
        "bias is None and T == S",
        "bias is None",
        "with a cache the kernel's triangle stands top left",
        "models/test_kv_cache.py::test_the_cache_with_the_fused_kernel",
    ),
    (
        "triangle = mask.causal and mask.allowed is None and bias",
        "triangle = mask.causal and bias",
        "the kernel's triangle forgets padding",
        "test_values_and_gradients_agree",
    ),
    (
        'bias if attn_mask is None else bias.masked_fill(~attn_mask, float("-inf"))',
        "bias",
        "the kernel forgets the mask where there is a bias",
        "test_all_three_implementations_agree models/test_kv_cache.py::test_the_cache_with_the_fused_kernel",
    ),
    (
        "is_causal=triangle, scale=scale",
        "is_causal=triangle, scale=None",
        "the kernel takes a scale of its own",
        "test_all_three_implementations_agree",
    ),
    (
        "k = rotation(self.split(self.key(source)))",
        "k = self.split(self.key(source))",
        "keys are not turned by their positions",
        "nn/test_positions.py::test_attention_with_rotation_is_translation_invariant",
    ),
    (
        "q = rotation(self.split(self.query(x)))",
        "q = self.split(self.query(x))",
        "queries are not turned by their positions",
        "nn/test_positions.py::test_attention_with_rotation_is_translation_invariant",
    ),
    (
        "return k, self.split(self.value(source))",
        "return k, self.split(self.key(source))",
        "keys are taken for values",
        "test_gradcheck nn/test_layer.py::test_every_parameter_is_used",
    ),
    (
        "p_dropout = self.dropout if self.training else 0.0",
        "p_dropout = self.dropout",
        "weights are dropped in eval mode",
        "test_eval_mode_has_no_dropout",
    ),
    (
        "return dropout(weights, p_dropout).to(v.dtype) @ v",
        "return weights.to(v.dtype) @ v",
        "who watches turns dropout off",
        "test_dropout_is_the_same_fused_and_explicit",
    ),
    (
        "weights = self.hook_pattern(masked_softmax(scores, allowed))",
        "weights = self.hook_pattern(masked_softmax(scores, None))",
        "who watches turns the mask off",
        "nn/test_hooks.py::test_recording_changes_nothing",
    ),
    (
        "return x.view(B, T, self.n_heads, -1).transpose(1, 2)",
        "return x.view(B, self.n_heads, T, -1)",
        "heads are cut along positions",
        "test_the_order_of_heads_does_not_matter",
    ),
    (
        "self.output(y.transpose(1, 2).flatten(2))",
        "self.output(y.reshape(y.shape[0], y.shape[2], -1))",
        "heads are joined in the wrong order",
        "test_the_order_of_heads_does_not_matter",
    ),
    (
        "return any(point.has_hooks for point in points)",
        "return all(point.has_hooks for point in points)",
        "a hook alone is not heard",
        "nn/test_hooks.py::test_a_hook_can_mute_a_head",
    ),
)

SHORT_ATTENTION = _of(
    "nn/bmm_attention",
    "nn/test_attention.py",
    (
        "scores = torch.bmm(q, k.mT).mul_(scale)",
        "scores = torch.bmm(q, k.mT)",
        "short rows are not scaled",
        "test_all_three_implementations_agree",
    ),
    (
        "ds.mul_(ctx.scale)",
        "ds.mul_(1.0)",
        "the gradients of queries and keys are not scaled",
        "test_values_and_gradients_agree test_gradcheck",
    ),
    (
        "dv = torch.bmm((weights if mask is None else weights * mask).mT, dy)",
        "dv = torch.bmm(weights.mT, dy)",
        "the gradient of the values forgets dropout",
        "test_dropout_is_the_same_fused_and_explicit",
    ),
    (
        "dw.mul_(mask)",
        "dw.mul_(1.0)",
        "the gradient of the weights forgets dropout",
        "test_dropout_is_the_same_fused_and_explicit",
    ),
    (
        "y = y.masked_fill(~allowed.any(-1, keepdim=True), 0)",
        "y = y.clone()",
        "a query that may see nothing gets the mean of all values",
        "test_a_fully_masked_row_is_zero_with_finite_gradients",
    ),
    (
        "return bias.to(q.dtype).masked_fill(~allowed, lowest)",
        "return bias.to(q.dtype)",
        "short rows forget the mask where there is a bias",
        "test_all_three_implementations_agree",
    ),
    (
        "by_head.sum_to_size(added.shape).clone()",
        "by_head.sum_to_size(added.shape)",
        "the gradient of the bias is scaled with those of the queries",
        "test_values_and_gradients_agree test_gradcheck",
    ),
    (
        "if ctx.needs_input_grad[3]:",
        "if False:",
        "the bias does not learn",
        "test_values_and_gradients_agree",
    ),
)

MASKS = _of(
    "nn/masks",
    "nn/test_masks.py",
    (
        ".tril(S - T)",
        ".tril()",
        "with a cache the newest see the oldest alone",
        "models/test_kv_cache.py::test_positions_continue_from_the_cache",
    ),
    (
        ".tril(S - T)",
        ".tril(S - T + 1)",
        "everybody sees the next token",
        "test_a_causal_mask_allows_the_past_and_itself",
    ),
    (
        "if self.allowed is None else self.allowed & past",
        "if self.allowed is None else self.allowed | past",
        "padding or the future is seen, whichever is allowed",
        "test_causal_and_allowed_are_combined",
    ),
    (
        "if self.allowed is None else self.allowed & past",
        "",
        "causal masks forget padding",
        "test_causal_and_allowed_are_combined",
    ),
    (
        "return cls(mask[:, None, None, :], causal)",
        "return cls(mask[:, None, :, None], causal)",
        "padding sees nothing, and is seen",
        "test_padding_is_hidden",
    ),
    (
        "return cls(mask[:, None, None, :], causal)",
        "return cls(mask[:, None, None, :])",
        "padded texts see their future",
        "models/test_kv_cache.py::test_every_chunking test_causal_and_allowed_are_combined",
    ),
    (
        "return cls(same & (segments >= 0)[:, None, None, :], causal)",
        "return cls(same, causal)",
        "padding of packed rows sees itself",
        "test_segments_attend_only_to_themselves",
    ),
    (
        "segments[:, None, :, None] == segments",
        "segments[:, None, :, None] >= segments",
        "a packed text sees those before it",
        "test_segments_attend_only_to_themselves",
    ),
    (
        "(mask.cumsum(-1) - 1).masked_fill(~mask, 0)",
        "mask.cumsum(-1).masked_fill(~mask, 0)",
        "positions begin at 1",
        "test_positions_count_real_tokens",
    ),
)

CACHE = _of(
    "nn/cache",
    "nn/test_cache.py",
    (
        "grown[:, :, : self.length] = self.keys_values[which][:B, :, : self.length]",
        "grown.zero_()",
        "a cache that grows forgets what it holds",
        "test_a_cache_that_grows_keeps_what_it_holds",
    ),
    (
        "self._grown(k, S, 0), self._grown(v, S, 1)",
        "self._grown(k, S, 0), self._grown(v, S, 0)",
        "a cache that grows takes its keys for values",
        "test_a_cache_that_grows_keeps_what_it_holds",
    ),
    (
        "if new.stop > self.capacity:",
        "if new.stop > self.capacity + 1:",
        "one position more than there is room for",
        "test_a_full_cache_raises",
    ),
    (
        "self.length = new.stop",
        "self.length = max(self.length, k.shape[2])",
        "each new token overwrites the one before",
        "test_update_returns_all_positions",
    ),
    (
        "if self.cross is None:\n            self.cross = project()",
        "if project:\n            self.cross = project()",
        "the source is projected anew at every step",
        "test_the_memory_is_projected_once",
    ),
    (
        "used = slice(0, self.length)",
        "used = slice(0, max(self.length - 1, 0))",
        "reordered rows lose their newest position",
        "test_rows_can_be_repeated_reordered_and_left_out",
    ),
    (
        "torch.index_select(old[:, :, used], 0, rows,",
        "torch.index_select(old[:, :, used], 0, rows.sort().values,",
        "beams go on from each other's keys",
        "test_rows_can_be_repeated_reordered_and_left_out",
    ),
    (
        "self.cross = self.cross[0][sources], self.cross[1][sources]",
        "self.cross = self.cross[0][sources], self.cross[1]",
        "values of sources that are over stay",
        "models/test_kv_cache.py::test_rows_can_be_repeated_in_the_middle",
    ),
    (
        "self.length -= positions",
        "self.length = 0",
        "taking back one token forgets the whole text",
        "decoding/incremental/test_decoder.py::test_rows_are_repeated_reordered_dropped_and_rewound",
    ),
    (
        "return self.caches[0].length if self.caches else 0",
        "return 0",
        "positions begin anew at every step",
        "models/test_kv_cache.py::test_positions_continue_from_the_cache",
    ),
    (
        "self.buffer = cache.select_rows(rows, self.buffer)",
        "cache.select_rows(rows)",
        "every reordering takes new memory",
        "decoding/incremental/test_decoder.py::test_reordering_allocates_no_memory",
    ),
    (
        "S = min(max(2 * self.length, new.stop, INITIAL_CAPACITY), self.capacity)",
        "S = min(max(2 * self.length, INITIAL_CAPACITY), self.capacity)",
        "a prompt that is longer than the first room does not fit",
        "test_a_cache_that_grows_keeps_what_it_holds",
    ),
)

LAYERS = (
    _of(
        "nn/layer",
        "nn/test_layer.py",
        (
            "return self.dropout.add_residual(x, sublayer(self.norm(x)))",
            "return self.dropout.add_residual(self.norm(x), sublayer(self.norm(x)))",
            "a pre-norm layer goes on from the normed sum",
            "test_add_and_norm test_the_order_of_figure_1",
        ),
        (
            "return self.norm(self.dropout.add_residual(x, sublayer(x)))",
            "return self.norm(sublayer(x))",
            "a post-norm layer has no residual sum",
            "test_add_and_norm test_the_order_of_figure_1",
        ),
        (
            "return attention.attend(beams, k, v, mask).view_as(x)",
            "return attention.attend(beams, k, v).view_as(x)",
            "cross-attention sees the padding of the source",
            "models/test_padding.py::test_sequence_to_sequence",
        ),
        (
            "k, v = cache.cross_keys_values(lambda: attention.project(memory))",
            "k, v = attention.project(memory)",
            "the source is projected anew at every step",
            "decoding/test_beam.py::test_a_source_is_projected_once_and_not_repeated",
        ),
    )
    + _of(
        "nn/stack",
        "nn/test_stack.py",
        (
            "rotation=rotation)\n        return self.norm(x)",
            "rotation=rotation)\n            return self.norm(x)",
            "the first layer alone runs: a return inside the loop",
            "test_layers_run_in_order",
        ),
        (
            "self.relative(T, cache.length + T)",
            "self.relative(T, T)",
            "with a cache the bias is that of a text that begins",
            "models/test_kv_cache.py::test_positions_continue_from_the_cache",
        ),
    )
    + _of(
        "nn/positions",
        "nn/test_positions.py",
        (
            "torch.cat([-second, first], -1)",
            "torch.cat([second, first], -1)",
            "a turn becomes a mirror",
            "test_rotation_matches_roformer_equation_15",
        ),
        (
            "positions[None, :] - positions[S - T :, None]",
            "positions[None, :] - positions[:T, None]",
            "with a cache the bias is that of the oldest positions",
            "models/test_kv_cache.py::test_positions_continue_from_the_cache",
        ),
        (
            "distance = (-distance).clamp(min=0)",
            "distance = distance.abs()",
            "a decoder's future has buckets",
            "test_a_decoder_has_buckets_only_for_the_past",
        ),
    )
    + _of(
        "nn/dropout",
        "nn/test_dropout.py",
        (
            "(gradient * mask).to(mask.dtype)",
            "gradient.to(mask.dtype)",
            "what was dropped in the residual sum learns",
            "test_the_residual_sum_in_one_pass test_gradcheck_with_a_fixed_mask",
        ),
        (
            "scale = BYTE_LEVELS / (BYTE_LEVELS - dropped)",
            "scale = 1.0",
            "what is left is not scaled up",
            "test_rate_and_mean",
        ),
    )
    + _of(
        "models/decoder",
        "models/test_kv_cache.py",
        (
            "position_ids(ids, cache.length)",
            "position_ids(ids)",
            "positions begin anew at every step",
            "test_positions_continue_from_the_cache",
        ),
    )
)

BEAM = _of(
    "decoding/beam",
    "decoding/test_beam.py",
    (
        "rank = candidates.value / length_norm(self.t, self.config)",
        "rank = candidates.value / length_norm(self.t + 1, self.config)",
        "hypotheses are ranked by a length that is one too long",
        "test_beam_search_as_documented",
    ),
    (
        "else (5 + t) / 6",
        "else (6 + t) / 6",
        "another length norm than Wu et al.'s",
        "test_length_norms",
    ),
    (
        "total.topk(min(2 * self.config.beam, total.shape[1]))",
        "total.topk(min(self.config.beam, total.shape[1]))",
        "K continuations are looked at, not 2K: those that end push the living out",
        "test_beam_search_as_documented",
    ),
    (
        "return stopped & (torch.arange(stopped.shape[1], device=stopped.device) "
        "< self.config.beam)",
        "return stopped",
        "whatever ends among 2K is finished",
        "test_beam_search_as_documented",
    ),
    (
        "total = (scores + self.alive.value.view(-1, 1)).view(N, -1)",
        "total = scores.view(N, -1)",
        "the score of the past is forgotten",
        "test_beam_search_as_documented",
    ),
    (
        "rows = first_row + self.alive.parent",
        "rows = first_row + self.alive.parent.sort(-1).values",
        "beams go on from each other's cache",
        "test_a_wide_beam_finds_the_global_optimum",
    ),
    (
        "first_row = torch.arange(len(done), device=done.device)[:, None] * self.width",
        "first_row = torch.zeros(len(done), 1, dtype=torch.int64, device=done.device)",
        "every text goes on from the rows of the first",
        "test_beam_search_as_documented",
    ),
    (
        "self.texts[alive], self.limits[alive]",
        "self.texts[alive], self.limits[: int(alive.sum())]",
        "texts take over the limits of those that are over",
        "decoding/test_generate.py::test_limits_follow_the_source "
        "decoding/test_generate.py::test_not_longer_than_max_length",
    ),
    (
        "rank = self.alive.value / length_norm(self.t, self.config)",
        "rank = self.alive.value",
        "early_stopping False compares a score with a rank",
        "test_beam_search_as_documented",
    ),
    (
        "(rank + self._coverage(self.alive)).amax(-1) <= worst",
        "rank.amax(-1) <= worst",
        "early_stopping False leaves out what coverage costs the living",
        "test_coverage_penalty_as_documented",
    ),
    (
        "longer = self.config.length_penalty > 0",
        "longer = False",
        'the early stop "exact" hopes for nothing longer',
        "test_beam_search_as_documented test_the_values_of_early_stopping_differ",
    ),
    (
        "((worst > NEG_INF) & hopeless)",
        "hopeless",
        "a search is over before K hypotheses are finished",
        "test_beam_search_as_documented",
    ),
    (
        "value=candidates.value.masked_fill(stopped, NEG_INF)",
        "value=candidates.value",
        "what ended lives on",
        "test_beam_search_as_documented",
    ),
    (
        "missed = covered.log().masked_fill(~self.source_mask[:, None], 0.0)",
        "missed = covered.log()",
        "coverage punishes padding that nobody looked at",
        "test_coverage_is_that_of_the_alignment",
    ),
    (
        "tiny, max=1.0)",
        "tiny)",
        "coverage rewards what was looked at twice",
        "test_coverage_is_that_of_the_alignment",
    ),
    (
        "_by_value(value, parent * 2**32 + token)",
        "_by_value(value, token * 2**32 + parent)",
        "ties go to the smaller token of the worse beam",
        "test_ties_go_to_the_smaller_token_and_the_better_beam",
    ),
    (
        "chosen.log_p[..., self.t] = log_p",
        "chosen.log_p[..., self.t] = value",
        "tokens are given the score of their beginning",
        "test_one_beam_is_greedy",
    ),
)

DECODING = (
    _of(
        "decoding/incremental/decoder",
        "decoding/incremental/test_decoder.py",
        (
            "numbers = every[:, start:].clamp(min=0)",
            "numbers = torch.arange(start, end, device=ids.device).expand_as(ids)",
            "positions count padding",
            "decoding/test_generate.py::test_single_equals_batched",
        ),
        (
            "mask = every >= 0",
            "mask = every > 0",
            "the first token of a padded prompt is hidden",
            "decoding/test_generate.py::test_single_equals_batched",
        ),
        (
            "None if self._padding is None else self._padding[rows]",
            "self._padding",
            "rows take over the padding of those that are over",
            "decoding/test_generate.py::test_single_equals_batched "
            "test_rows_are_repeated_reordered_dropped_and_rewound",
        ),
        (
            "self._source_mask = None if self._source_mask is None else self._source_mask[sources]",
            "pass",
            "rows take over the source mask of those that are over",
            "decoding/test_generate.py::test_single_equals_batched",
        ),
        (
            "if not shared:",
            "if shared:",
            "sources are repeated for beams that could share one",
            "test_rows_are_repeated_reordered_dropped_and_rewound",
        ),
    )
    + _of(
        "decoding/generate",
        "decoding/test_generate.py",
        (
            "state.rows, token = state.rows[kept], token[kept]",
            "state.rows, token = state.rows[: len(kept)], token[kept]",
            "rows write into the sheet of those that are over",
            "test_single_equals_batched test_scores_equal_teacher_forcing",
        ),
    )
    + _of(
        "decoding/stopping",
        "decoding/test_generate.py",
        (
            "return len(ids) >= self.limits[text]",
            "return len(ids) > self.limits[text]",
            "a token more than the limit",
            "test_not_longer_than_max_length test_limits_follow_the_source",
        ),
        (
            "before = self.prompts[text] if self.prompts else ()",
            "before = ()",
            "a stop text misses the space of the first word behind a prompt",
            "decoding/test_build.py::test_a_stop_string_that_starts_with_the_first_space",
        ),
    )
    + _of(
        "decoding/build",
        "decoding/test_build.py",
        (
            "ids = token_bytes.shortest_tokens(data[1:])",
            "pass",
            "a prefix behind a prompt gets a space nobody asked for",
            "test_a_prefix_continues_a_prompt_exactly",
        ),
        (
            "rest = [limit - forced for limit in limits]",
            "rest = limits",
            "a pattern is promised the room of a token that is forced to come first",
            "decoding/constraints/test_constraint.py::test_a_forced_token_counts_towards_the_limit",
        ),
    )
    + _of(
        "decoding/sampling",
        "decoding/test_sampling.py",
        (
            "self.uniform[rows, step, None]",
            "self.uniform[: len(rows), step, None]",
            "a draw belongs to a place in the batch, not to its text",
            "decoding/test_generate.py::test_single_equals_batched test_texts_have_independent_samples",
        ),
        (
            "self.uniform[rows, step, None]",
            "self.uniform[rows, 0, None]",
            "every step draws with the same number",
            "test_two_samples_are_independent",
        ),
    )
    + _of(
        "decoding/processors",
        "decoding/test_processors.py",
        (
            "if context.generated.shape[1] < self.n:",
            "if context.generated.shape[1] <= self.n:",
            "an answer must be a token longer than asked",
            "test_min_length_counts_generated_tokens",
        ),
        (
            "logits = scores if context.logits is None else context.logits",
            "logits = scores",
            "a penalty cannot touch a token the model is sure of",
            "test_a_penalty_breaks_a_loop_of_certain_tokens",
        ),
        (
            "if self.n > context.generated.shape[1]:",
            "if self.n > context.generated.shape[1] + 1:",
            "a prefix stands in the place of the token that is forced to come first",
            "test_processors_do_not_see_a_forced_first_token",
        ),
        (
            "forced = forced[context.texts]",
            "forced = forced[: len(scores)]",
            "prefixes belong to places in the batch, not to texts",
            "test_one_prefix_for_all_or_one_for_each",
        ),
    )
    + _of(
        "decoding/speculative",
        "decoding/test_speculative.py",
        (
            "self._sample((p - drafted[number].q).clamp(min=0))",
            "self._sample(p)",
            "a refused guess is drawn again from the whole distribution",
            "test_samples_follow_the_distribution_of_the_target",
        ),
        (
            "decoder.rewind(max(decoder.length - len(state) + 1, 0))",
            "decoder.rewind(max(decoder.length - len(state), 0))",
            "the newest token counts as read",
            "test_greedy_output_is_that_of_plain_greedy",
        ),
    )
    + _of(
        "decoding/incremental/sliding_window",
        "decoding/incremental/test_sliding_window.py",
        (
            "self._discarded, self._decoder = self.length - self._half, self._new_decoder()",
            "self._discarded, self._decoder = self.length - self._capacity, self._new_decoder()",
            "a window moves by one token at a time",
            "test_single_tokens_far_beyond_the_window",
        ),
    )
)

COMMITS = (
    _of(
        "atomic_io",
        "test_atomic_io.py",
        (
            "file.flush()\n        os.fsync(file.fileno())",
            "file.flush()",
            "bytes are not forced to disk",
            "training/checkpoints/test_store.py::test_the_order_of_a_commit",
        ),
        (
            "    try:\n        os.fsync(descriptor)",
            "    try:\n        pass",
            "names are not forced to disk",
            "training/checkpoints/test_store.py::test_the_order_of_a_commit",
        ),
        (
            "temp.replace(path)\n        sync_folder(path.parent)",
            "temp.replace(path)",
            "the name of a new file may be lost",
            "test_data_is_synced_before_the_name_and_the_name_before_the_return",
        ),
        (
            'path.open("xb")',
            'path.open("wb")',
            "a new file overwrites what is there",
            "test_a_new_file_never_overwrites",
        ),
        (
            "return token == _PROCESS_TOKEN",
            "return True",
            "what an earlier life of a process number left stays for ever",
            "test_only_stale_temporary_files_are_removed",
        ),
        (
            "except ProcessLookupError:\n        return False",
            "except ProcessLookupError:\n        return True",
            "what dead processes left stays for ever",
            "training/checkpoints/test_store.py::test_temporary_folders_of_dead_processes_are_removed",
        ),
        (
            "remove(path)\n        raise",
            "pass\n        raise",
            "what failed half-way is left behind",
            "test_a_failing_writer_leaves_only_the_old_file",
        ),
    )
    + _of(
        "safetensors_io",
        "test_safetensors_io.py",
        (
            "if entry.start != end:",
            "if entry.start < end:",
            "a file may hide bytes between its tensors",
            "test_an_invalid_header_is_rejected_quickly",
        ),
        (
            "if end != size - 8 - length:",
            "if end > size - 8 - length:",
            "a file may hide bytes behind its tensors",
            "test_an_invalid_header_is_rejected_quickly",
        ),
    )
    + _of(
        "training/checkpoints/store",
        "training/checkpoints/test_store.py",
        (
            "sync_folder(scratch)",
            "pass",
            "the names of a checkpoint's files may be lost",
            "test_the_order_of_a_commit",
        ),
        (
            "sync_folder(self.checkpoints)",
            "pass",
            "an acknowledged checkpoint may be lost",
            "test_the_order_of_a_commit",
        ),
        (
            "if valid < self.keep:",
            "if valid < self.keep - 1:",
            "one checkpoint fewer is kept than promised",
            "test_newest_and_protected_checkpoints_are_kept",
        ),
        (
            "elif step not in protect:",
            "else:",
            "the best checkpoint goes with the old ones",
            "test_newest_and_protected_checkpoints_are_kept",
        ),
        (
            "valid += self._is_valid(path)",
            "valid += 1",
            "damaged checkpoints count as kept",
            "test_a_damaged_checkpoint_does_not_count_as_kept",
        ),
        (
            "if self._verified.get(path.name) != stats:",
            "if path.name not in self._verified:",
            "a checkpoint that was verified once counts as valid forever",
            "test_verified_unchanged_files_are_not_read_again",
        ),
        (
            "replace(open_checkpoint(path), invalid=tuple(invalid))",
            "open_checkpoint(path)",
            "damaged checkpoints are not reported",
            "test_an_older_checkpoint_replaces_a_damaged_one",
        ),
        (
            "key=parse_step, reverse=True",
            "key=str, reverse=True",
            "step 9 is newer than step 40",
            "test_newest_and_protected_checkpoints_are_kept",
        ),
        (
            "self._make_way(final)",
            "pass",
            "a damaged checkpoint of the same step stops the training",
            "test_a_damaged_checkpoint_of_the_same_step_is_renamed",
        ),
    )
    + _of(
        "training/checkpoints/checkpoint",
        "training/checkpoints/test_store.py",
        (
            "if sha256_of(path) != record.sha256:",
            "if sha256_of(path) == '':",
            "a turned bit is not noticed",
            "test_every_truncation_and_flipped_bit_is_detected",
        ),
        (
            "if manifest.step != parse_step(path):",
            "if manifest.step < 0:",
            "a checkpoint that was moved is taken for another",
            "test_an_older_checkpoint_replaces_a_damaged_one",
        ),
        (
            "if present != expected:",
            "if wanted - present:",
            "a checkpoint may hold files that nobody vouches for",
            "test_an_older_checkpoint_replaces_a_damaged_one",
        ),
        (
            "if hashlib.sha256(data).hexdigest() != record.sha256:",
            "if not data:",
            "what changes between the check and the reading is loaded",
            "test_a_file_changed_after_verification_is_not_loaded",
        ),
    )
    + _of(
        "training/checkpoints/manifest",
        "training/checkpoints/test_store.py",
        (
            "if manifest.to_bytes() != data:",
            "if not data:",
            "a manifest that was edited is trusted",
            "test_a_manifest_has_one_valid_serialization",
        ),
        (
            "STATE_FILE.fullmatch(name)",
            "STATE_FILE.match(name)",
            "names of a manifest may lead out of its folder",
            "test_file_names_in_a_manifest_stay_in_its_folder",
        ),
    )
    + _of(
        "training/checkpoints/async_writer",
        "training/checkpoints/test_async_writer.py",
        (
            "np.copyto(_as_numpy(buffer), _as_numpy(tensor))\n    return buffer",
            "return tensor",
            "what is committed changes while it is written",
            "test_later_changes_are_not_in_a_commit",
        ),
        (
            'if tensor.device.type != "cpu":',
            "if tensor.device.type:",
            "the thread that copies has workers of its own",
            "test_the_thread_starts_no_openmp_workers",
        ),
        (
            "if last is not None:\n            last.result()",
            "if last is not None:\n            last.exception()",
            "the error of a failed commit is lost",
            "test_the_next_commit_raises_an_error",
        ),
        (
            "buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype",
            "buffer is None",
            "a tensor that grew is squeezed into the memory of the old one",
            "test_states_may_change_their_shapes",
        ),
    )
    + _of(
        "tasks/runs/run",
        "tasks/runs/test_run.py",
        (
            "if k not in MUTABLE_KEYS",
            "if k",
            "a run with another timeout cannot be resumed",
            "test_mutable_keys",
        ),
    )
    + _of(
        "training/lock",
        "training/test_lock.py",
        (
            "lock.acquire()",
            "lock.is_locked",
            "two trainings in one folder",
            "test_the_lock_excludes_others",
        ),
    )
)

TRAINING = (
    _of(
        "training/ema",
        "training/test_ema.py",
        (
            "decay = min(self.decay, (1 + step) / (10 + step))",
            "decay = self.decay",
            "the first weights are never forgotten",
            "test_the_average_of_two_hundred_steps",
        ),
        (
            "finally:\n            self._swap()",
            "finally:\n            pass",
            "training goes on with the average",
            "test_swap_gives_the_model_the_average_and_restores_it",
        ),
    )
    + _of(
        "training/optimizer",
        "training/test_optimizer.py",
        (
            "config.weight_decay if parameter.ndim >= 2 else 0.0",
            "config.weight_decay",
            "biases and norms decay",
            "test_a_hundred_steps_equal_numpy",
        ),
    )
    + _of(
        "seeding",
        "test_seeding.py",
        (
            'derive_seed(seed, "step", step, microbatch)',
            'derive_seed(seed, "step", step)',
            "the batches of a step drop the same numbers",
            "test_seed_step_and_microbatch_each_matter",
        ),
        (
            'derive_seed(seed, "order", epoch)',
            'derive_seed(seed, "order")',
            "every epoch comes in the same order",
            "test_orders_differ_by_seed_and_epoch",
        ),
    )
    + _of(
        "training/schedules",
        "training/test_schedules.py",
        (
            "return step / warmup_steps",
            "return (step - 1) / warmup_steps",
            "the first step is not taken",
            "test_inverse_square_root_is_the_paper_s",
        ),
    )
    + _of(
        "training/trainer",
        "training/test_trainer.py",
        (
            "self.ema.update(step)",
            "pass",
            "the average stays where it began",
            "test_every_step_enters_the_average",
        ),
    )
    + _of(
        "training/bad_steps",
        "training/test_trainer.py",
        (
            "if not (math.isfinite(loss) and math.isfinite(norm)):",
            "if not math.isfinite(loss):",
            "a step with a gradient that is no number is taken",
            "test_a_nonfinite_gradient_names_its_weight",
        ),
    )
)

LEARNING = (
    _of(
        "training/state",
        "training/test_state.py",
        (
            '"perplexity", "bits_per_byte"})',
            '"perplexity"})',
            "the run with the most bits per byte is the best",
            "test_the_better_score_wins",
        ),
    )
    + _of(
        "training/trainer",
        "training/test_trainer.py",
        (
            "set_step_seed(self.seed, step, index)",
            "set_step_seed(self.seed, step, 0)",
            "the batches of a step drop the same numbers",
            "test_every_microbatch_has_its_own_random_numbers",
        ),
        (
            "set_step_seed(self.seed, step, index)",
            "set_step_seed(0, step, index)",
            "every seed drops the same numbers",
            "test_every_microbatch_has_its_own_random_numbers",
        ),
    )
    + _of(
        "nn/losses",
        "nn/test_losses.py",
        (
            "(p - q)).sum() / 2",
            "(p - q)).sum()",
            "R-Drop adds both divergences, not half of each",
            "test_rdrop_kl_is_the_mean_of_both_divergences",
        ),
    )
    + _of(
        "training/trainer",
        "training/test_trainer.py",
        (
            "with self.strategy.with_ema(self.ema), ",
            "with torch.no_grad(), ",
            "dev is scored with the weights, not with their average",
            "test_the_average_is_evaluated_and_saved",
        ),
    )
    + _of(
        "nn/layer",
        "nn/test_layer.py",
        (
            "dropout=config.attention_dropout,",
            "dropout=config.dropout,",
            "attention weights are dropped at the rate of the rest",
            "test_each_sublayer_has_its_own_dropout_rate",
        ),
        (
            "dropout=config.activation_dropout,",
            "dropout=config.dropout,",
            "activations are dropped at the rate of the rest",
            "test_each_sublayer_has_its_own_dropout_rate",
        ),
        (
            "return self.dropout.add_residual(x, sublayer(self.norm(x)))",
            "return x + sublayer(self.norm(x))",
            "pre-norm layers drop nothing of their parts",
            "test_each_sublayer_has_its_own_dropout_rate",
        ),
    )
    + _of(
        "models/heads",
        "models/test_heads.py",
        (
            "return self.output(self.dropout(hidden))",
            "return self.output(hidden)",
            "a tagger drops nothing before its output",
            "test_a_head_has_dropout_on_its_input",
        ),
    )
    + _of(
        "decoding/alignment",
        "decoding/incremental/test_decoder.py",
        (
            "layers if layer is None else [layers[layer]]",
            "layers if layer is None else [layers[0]]",
            "an alignment is of the first layer, whichever was asked for",
            "test_an_alignment_is_of_the_requested_layer",
        ),
    )
    + _of(
        "tasks/jobs/subword_sampling",
        "tasks/jobs/test_subword_sampling.py",
        (
            "rng.random(len(texts)) < sampling.ratio",
            "rng.random(len(texts)) > sampling.ratio",
            "the other texts are sampled",
            "test_a_fraction_of_the_texts_is_sampled",
        ),
        (
            'derive_seed(sampling.seed, "chosen")',
            'derive_seed(0, "chosen")',
            "the same texts are sampled with every seed",
            "test_a_fraction_of_the_texts_is_sampled",
        ),
        (
            "source[indices] = len(rows)",
            "source[: len(indices)] = len(rows)",
            "sampled rows replace other texts",
            "test_a_fraction_of_the_texts_is_sampled",
        ),
    )
    + _of(
        "tasks/jobs/sequence_classification",
        "tasks/test_classification.py",
        (
            "loss = loss + weight * rdrop_kl(*logits.chunk(2))",
            "loss = loss + weight / 2 * rdrop_kl(*logits.chunk(2))",
            "the weight of R-Drop is half of the recipe's",
            "test_rdrop_compares_both_views",
        ),
        (
            "cross_entropy(logits, batch.labels, self.recipe.training.label_smoothing)",
            "cross_entropy(logits, batch.labels)",
            "labels are not smoothed",
            "test_label_smoothing_is_for_training_only",
        ),
        (
            "cross_entropy(logits, labels).item()",
            "cross_entropy(logits, labels, self.recipe.training.label_smoothing).item()",
            "the loss on dev is smoothed",
            "test_label_smoothing_is_for_training_only",
        ),
    )
    + _of(
        "tasks/jobs/sequence_classification",
        "tasks/test_regression.py",
        (
            "loss = loss + weight * F.mse_loss(",
            "loss = loss + weight / 2 * F.mse_loss(",
            "the weight of R-Drop is half of the recipe's in regression",
            "test_rdrop_compares_both_views",
        ),
    )
    + _of(
        "tasks/jobs/token_classification",
        "tasks/test_token_classification.py",
        (
            "loss = loss + weight * rdrop_kl(*logits.chunk(2))",
            "loss = loss + weight / 2 * rdrop_kl(*logits.chunk(2))",
            "the weight of R-Drop is half of the recipe's",
            "test_rdrop_compares_the_tags_of_both_views",
        ),
        (
            "cross_entropy(logits, batch.labels[tagged], smoothing)",
            "cross_entropy(logits, batch.labels[tagged])",
            "tags are not smoothed",
            "test_label_smoothing_of_tags_is_for_training_only",
        ),
    )
    + _of(
        "tasks/jobs/seq2seq",
        "tasks/test_seq2seq.py",
        (
            "rdrop_alpha=self.recipe.augmentation.rdrop_alpha if",
            "rdrop_alpha=self.recipe.augmentation.rdrop_alpha / 2 if",
            "the weight of R-Drop is half of the recipe's",
            "test_rdrop_compares_both_views_of_a_pair",
        ),
        (
            "return self._loss(batch, self.recipe.training.label_smoothing)",
            "return self._loss(batch, 0.0)",
            "tokens are not smoothed",
            "test_the_loss_ignores_padding",
        ),
        (
            "return self._loss(batch, 0.0).item(), batch.n_targets",
            "return self.loss(batch).item(), batch.n_targets",
            "the loss on dev is smoothed",
            "test_the_dev_loss_has_no_label_smoothing",
        ),
    )
    + _of(
        "tasks/jobs/causal_lm",
        "tasks/test_causal_lm.py",
        (
            "return next_token_loss(self.model, batch, self.recipe.training.label_smoothing)",
            "return next_token_loss(self.model, batch)",
            "tokens are not smoothed",
            "test_label_smoothing_of_tokens_is_for_training_only",
        ),
    )
)

MUTANTS: tuple[Mutant, ...] = (
    *ATTENTION,
    *SHORT_ATTENTION,
    *MASKS,
    *CACHE,
    *LAYERS,
    *BEAM,
    *DECODING,
    *COMMITS,
    *TRAINING,
    *LEARNING,
)
