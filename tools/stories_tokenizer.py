# stories260K's vocabulary as a byte-level tokenizer.json, so that a trained LLaMA model can be fed text.
"""usage: stories_tokenizer.py TOK512.BIN OUT.JSON

llama2.c's tok512.bin holds SentencePiece's pieces in the order in which they were merged. Written as a byte-level
BPE of the same ids: a byte whose character is a piece has that piece's id, another its byte piece's; a merge for
each way to join two pieces into a later one. A character of three UTF-8 bytes needs its first two as a token:
these take byte pieces that no text can yield, as their character has a piece of its own.
"""

import json
import struct
import sys
from pathlib import Path

from tokenizers.pre_tokenizers import ByteLevel

FIRST_BYTE, FIRST_PIECE = 3, 259  # before them <unk> <s> </s>, then a piece for each byte


def byte_symbols() -> list:
    """The character by which byte-level BPE writes each byte: printable ones stand for themselves, the others
    follow from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    symbols = {byte: chr(byte) for byte in plain}
    symbols.update({byte: chr(0x100 + i) for i, byte in enumerate(others)})
    assert set(symbols.values()) == set(ByteLevel.alphabet())
    return [symbols[byte] for byte in range(256)]


def read_pieces(path: Path) -> list:
    data, at, pieces = path.read_bytes(), 4, []
    while at < len(data):
        _, length = struct.unpack_from("<fi", data, at)
        pieces.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return pieces


def tokenizer_json(path: Path) -> dict:
    symbols = byte_symbols()
    spell = lambda data: "".join(symbols[byte] for byte in data)
    pieces = read_pieces(path)
    ids = {spell(piece): FIRST_PIECE + i for i, piece in enumerate(pieces[FIRST_PIECE:])}
    free = []  # ids of byte pieces that nothing yields
    for byte in range(256):
        if symbols[byte] in ids:
            free.append(FIRST_BYTE + byte)
        else:
            ids[symbols[byte]] = FIRST_BYTE + byte
    # Characters first, as SentencePiece starts from them.
    merges = []
    for piece in pieces[FIRST_PIECE:]:
        if len(piece) > 1 and len(piece.decode()) == 1:
            for length in range(2, len(piece) + 1):
                left, right, whole = piece[: length - 1], piece[length - 1 : length], piece[:length]
                if spell(whole) not in ids:
                    ids[spell(whole)] = free.pop()
                if [spell(left), spell(right)] not in merges:
                    merges.append([spell(left), spell(right)])
    for piece in pieces[FIRST_PIECE:]:
        text = piece.decode()
        for i in range(1, len(text)):
            left, right = spell(text[:i].encode()), spell(text[i:].encode())
            if left in ids and right in ids:
                merges.append([left, right])
    names = ["<unk>", "<s>", "</s>"]
    for rest in free:
        ids[f"<0x{rest - FIRST_BYTE:02X}>"] = rest  # ids without gaps
    vocab = {**{name: i for i, name in enumerate(names)}, **ids}
    assert sorted(vocab.values()) == list(range(len(pieces)))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": name, **flags} for i, name in enumerate(names)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [bos, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": dict(sorted(vocab.items(), key=lambda item: item[1])),
            "merges": merges,
        },
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    file = tokenizer_json(Path(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n")
