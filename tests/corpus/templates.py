# SPDX-License-Identifier: MIT
"""The messages of shipped sources that say what to do: string literals with an option, a parameter in backquotes, or a verb
such as give, take, set. Help texts and docs of parameters are none."""
import os
import re

TOP = os.path.abspath(os.environ.get("top_srcdir", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")))
FOLDERS = "core", "plugins", "scripts"
VERBS = "add|choose|correct|cut|give|install|leave|lower|make|pack|put|raise|remove|rename|run|save|say|set|take|try|type|use|write"
CURE = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]|`[^`]+`|(?:^|[;:,(.]|\bor|\band|\bthere) *(?:%s)\b (?!%%)" % VERBS, re.I)
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'|\bPRI[diuxX]\w+|\w+|\s+|.', re.S)
LUA_TOKEN = re.compile(
    r'--\[(=*)\[.*?\]\1\]|--[^\n]*|\[(=*)\[(.*?)\]\2\]|"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|\.\.|[\w.]+|\s+|.', re.S)
PY_TOKEN = re.compile(
    r'#[^\n]*|[rbf]{0,2}"""(.*?)"""|[rbf]{0,2}"((?:[^"\\\n]|\\.)*)"|[rbf]{0,2}\'((?:[^\'\\\n]|\\.)*)\'|\w+|\s+|.', re.S)


def c_literals(text):
    """(line, what stands before, the literal) of each run of literals side by side."""
    line, before, parts, at = 1, [], [], 0
    for m in C_TOKEN.finditer(text):
        token = m.group()
        if m.group(1) is not None:
            at = at if parts else line
            parts.append(m.group(1))
        elif parts and token.startswith("PRI"):
            parts.append("d")
        elif token.strip(" \t\n\\") and not token.startswith(("/*", "//")):
            if parts:
                yield at, before[-4:], "".join(parts)
                parts = []
            before.append(token)
        line += token.count("\n")


def lua_literals(text):
    line, before, last, depth, joined = 1, [], None, [], False
    for m in LUA_TOKEN.finditer(text):
        token = m.group()
        body = next((g for g in m.group(3, 4, 5) if g is not None), None)
        if body is not None and not token.startswith("--"):
            if last and joined:
                last = last[0], last[1], last[2] + body
            else:
                if last:
                    yield last
                last = line, before[-4:] + depth[-1:], body
            joined = False
        elif token.strip() and not token.startswith("--"):
            if token == ".." and not joined:
                joined = True
            else:
                if last:
                    yield last
                last, joined = None, False
            if token in "({[":
                depth.append(before[-1] + token if before and token == "(" else token)
            elif token in ")}]" and depth:
                depth.pop()
            before.append(token)
        line += token.count("\n")
    if last:
        yield last


def py_literals(text):
    line, before, parts, at, where = 1, [], [], 0, []
    for m in PY_TOKEN.finditer(text):
        token = m.group()
        body = next((g for g in m.groups() if g is not None), None)
        if body is not None:
            if not parts:
                at, where = line, before[-4:]
            parts.append(re.sub(r"\{[^{}]*\}", "%s", body) if "f" in token[:2].lower().split('"')[0].split("'")[0] else body)
        elif token.strip() and not token.startswith("#"):
            if parts:
                yield at, where, "".join(parts)
                parts = []
            before.append(token)
        line += token.count("\n")


DOC = re.compile(r"(?:\b(?:doc|more|default|help|value|description|usage|rest|groups) ?= ?(?:\(|\{)?|#define \w+DOC \\?\\?)$")
TALKS = re.compile(r"fail|usage|log|progress|return|error|print|format|note|add|complain")


def is_doc(path, before):
    """A row of options, the doc of a parameter, text of a page that is written."""
    words = " ".join(before)
    if path.endswith(".lua") and before and before[-1].endswith("{") and not TALKS.search(" ".join(before[:-1])):
        return True
    if path.endswith(".py") and (not words or re.search(r"add_argument \(|help =|\) :$", words)):
        return True
    return bool(DOC.search(words))


KINDS = {".c": c_literals, ".h": c_literals, ".cu": c_literals, ".cuh": c_literals, ".cpp": c_literals, ".lua": lua_literals, ".py": py_literals}


PLACE = re.compile(r"%(?:sample|value|limit|[-+ 0#]*[\d*]*(?:\.[\d*]+)?(?:ll|l|h|z|j)?[a-zA-Z]|%)")


class Template:
    def __init__(self, path, line, text):
        self.path, self.line = path, line
        lines = [t for t in text.replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\").split("\\n") if CURE.search(t)]
        self.text = lines[0].strip() if lines else ""
        # What is in front says whose message it is, "--size 7: ".
        says = re.sub(r"^(?:%s: )?--[a-z%][a-z-]*(?: '?%[-.\d]*[a-z]'?)?: ", "", self.text)
        self.options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", says))
        self.typed = bool(self.options or re.search(r"`\w+ = [^`]+`|`?spcore [a-z]+\b", says))

    def regex(self):
        """A pattern of the lines that are printed of it: a cure in backquotes may stand there with its option behind it."""
        out, at = [], 0
        for m in PLACE.finditer(self.text):
            out += [re.escape(self.text[at : m.start()]), "%" if m.group() == "%%" else ".*?"]
            at = m.end()
        text = "".join(out + [re.escape(self.text[at:])])
        return re.compile(re.sub(r"`(\w+\\ =\\ [^`]+)`", r"\1(?: \\([^()]*\\))?", text))

    def is_in(self, lines):
        """Is it printed in one of these lines? Patterns are slow: only lines with its longest fixed words are matched."""
        words = max(re.split(PLACE.pattern + "|`", self.text), key=len)
        few = [line for line in lines if words in line]
        pattern = self.regex() if few else None
        return any(pattern.search(line) for line in few)

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


def collect():
    found = []
    for folder in FOLDERS:
        for path, folders, files in os.walk(os.path.join(TOP, folder)):
            folders.sort()
            for name in sorted(files):
                literals = KINDS.get(os.path.splitext(name)[1])
                full = os.path.join(path, name)
                of = os.path.relpath(full, TOP)
                if not literals or of.startswith("scripts/meta") or name in ("style.lua", "completion.lua"):
                    continue
                with open(full, encoding="utf-8") as f:
                    text = f.read()
                for line, before, literal in literals(text):
                    if CURE.search(literal) and not is_doc(of, before) and len(PLACE.sub("", literal).strip()) > 6:
                        t = Template(of, line, literal)
                        if t.text and not re.fullmatch(r"--[a-z-]+", t.text):
                            found.append(t)
    return found


if __name__ == "__main__":
    for t in collect():
        print(t)
