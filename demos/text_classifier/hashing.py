"""Vectors of texts, as `TextFeaturesCalculator` makes them."""

import numpy as np

BUCKETS, MIN_PART, MAX_PART = 4096, 3, 4


def fnv1a(part):
    value = 0x811C9DC5
    for byte in part.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def words(text):
    text = text.lower()
    return "".join(it if it.isalnum() else " " for it in text).split()


def vector(text):
    counts = np.zeros(BUCKETS, np.float32)
    for word in words(text):
        counts[fnv1a(word) % BUCKETS] += 1
        framed = f" {word} "
        for length in range(MIN_PART, MAX_PART + 1):
            for at in range(len(framed) - length + 1):
                counts[fnv1a(framed[at : at + length]) % BUCKETS] += 1
    length = np.linalg.norm(counts)
    return counts / length if length else counts
