"""Names in place of refs, for the user who reads what a model has written.

A reply comes in, whole or in chunks cut anywhere; out comes the same with `Thai Curry` where it
had `recipe_3`. A ref counts where it stands by itself: in prose, lists, code, emphasis and links,
before a possessive, with its underscores escaped as Markdown has it; not inside a longer word, and
not inside a URL, which a name would break. However a text is cut, the result is the same: at most
the length of the longest ref is held back until it is clear where a word ends.

```python
replies = Names(lambda refs: {"recipe_3": "Thai Curry"}, longest=20)
[*replies.of(["I put reci", "pe_3's sauce", " on the list."])]
# ['I put ', "Thai Curry's sauce", ' on the list.']
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from alfred_refs.mapping.refs import parse_ref

NamesOf = Callable[[Sequence[str]], Mapping[str, str]]
"""Returns the name of each ref that is known: one look-up for those of a chunk."""

# a word as far as a ref is concerned, what ends a URL, and what begins one
_PIECE = re.compile(r"(?P<word>[A-Za-z0-9_\\]+)|(?P<end>[\s<>()\[\]\"'`])|(?P<url>://)")
_UNFINISHED = re.compile(r"(?:[A-Za-z0-9_\\]+|:/?)\Z")
_MARKUP = "_\\"  # emphasis or an escape, at the ends of a word


class Names:
    """Puts names in the place of refs, chunk by chunk; one object for each reply.

    Args:
        names_of: looks names up; each ref is asked for once.
        longest: characters of the longest ref there may be.
        unknown: what is shown for a ref that nothing is known of; as it is, by default.
    """

    def __init__(
        self, names_of: NamesOf, longest: int, unknown: Callable[[str], str] = str
    ) -> None:
        self._names_of = names_of
        self._longest = longest
        self._unknown = unknown
        self._known: dict[str, str] = {}
        self._held = ""
        self._before = ""  # the end of what was given out
        self._in_url = False
        self._in_word = False  # in one that is too long for a ref

    def of(self, chunks: Iterable[str]) -> Iterator[str]:
        """Yield a reply's chunks with names, as soon as each is clear."""
        for chunk in chunks:
            if text := self.add(chunk):
                yield text
        if text := self.end():
            yield text

    def add(self, chunk: str) -> str:
        """Return what is clear once a chunk has come."""
        text = self._held + chunk
        unfinished = _UNFINISHED.search(text)
        end = len(text) if unfinished is None else unfinished.start()
        if self._is_long(text[end:]):  # no ref: it need not be held
            self._held, done = "", self._named(text[:end], text[end:])
            self._in_word = True
            return self._gave(done + text[end:])
        self._held = text[end:]
        return self._gave(self._named(text[:end], self._held))

    def end(self) -> str:
        """Return the rest."""
        text, self._held = self._held, ""
        return self._gave(self._named(text, ""))

    def _is_long(self, word: str) -> bool:
        core = word.strip(_MARKUP).replace("\\_", "_")
        return len(core) > self._longest or len(word) > 2 * self._longest

    def _gave(self, text: str) -> str:
        self._before = (self._before + text)[-2:]
        return text

    def _named(self, text: str, after: str) -> str:
        """Return a text that ends where a word does, with names."""
        pieces = [*_PIECE.finditer(text)]
        refs = [_ref_of(piece["word"]) for piece in pieces if piece["word"]]
        self._look_up([ref for ref in refs if ref])
        rest = pieces[0] if pieces and self._in_word and pieces[0].start() == 0 else None
        self._in_word = self._in_word and not text
        shown, end = [], 0
        for piece in pieces:
            shown.append(text[end : piece.start()])
            end = piece.end()
            if piece["word"] and not self._in_url and piece is not rest:
                before = (self._before + "".join(shown))[-2:]
                in_link = before == "](" and (text + after)[end : end + 1] == ")"
                shown.append(self._word(piece["word"], in_link=in_link))
            else:
                shown.append(piece[0])
            if not piece["word"]:
                self._in_url = piece["url"] is not None
        return "".join([*shown, text[end:]])

    def _look_up(self, refs: Sequence[str]) -> None:
        new = [ref for ref in dict.fromkeys(refs) if ref not in self._known]
        if new:
            found = self._names_of(new)
            self._known |= {ref: found.get(ref) or self._unknown(ref) for ref in new}

    def _word(self, word: str, *, in_link: bool) -> str:
        ref = _ref_of(word)
        if ref is None:
            return word
        name = self._known[ref]
        if name == ref:
            return word
        if in_link:  # where Markdown takes spaces in brackets alone
            name = "<" + re.sub(r"([\\<>])", r"\\\1", name) + ">"
        core = word.strip(_MARKUP)
        start = word.index(core)
        return word[:start] + name + word[start + len(core) :]


def _ref_of(word: str) -> str | None:
    """Return the ref that a word spells, be it capitalised, escaped or emphasised."""
    text = word.strip(_MARKUP).replace("\\_", "_").lower()
    return None if parse_ref(text) is None else text
