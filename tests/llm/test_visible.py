from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm.toolcalls.notations import BEGINNINGS, NOTATIONS
from app.llm.visible import Reading, VisibleText, read

NAMES = frozenset({"ping", "get_weather", "wiki_write_page", "search_notes"})
CALL = '{"name": "ping", "arguments": {}}'
FRAGMENTS = [
    *NOTATIONS,
    *(marker[: len(marker) // 2] for marker in NOTATIONS),
    "<function=ping>",
    "<function=unknown>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "<arg_key>a</arg_key>",
    "<arg_value>1</arg_value>",
    '<invoke name="ping">',
    "</invoke>",
    ">>>ping\n",
    ">>>all\n",
    ">>>pi",
    CALL,
    '{"name": "ping", "argu',
    '{"name": "Astrid"}',
    "[ARGS]{}",
    "ping",
    "print(ping())",
    "get_weather(city='x')",
    "final",
    "analysis",
    "commentary to=functions.ping ",
    "<|message|>",
    "```json\n",
    "```tool_code\n",
    "```\n",
    "\n```",
    "~~~\n",
    "`",
    "``",
    "```",
    "~",
    "\n",
    "\n\n",
    " ",
    "    ",
    "> ",
    "- ",
    "text",
    "Grüße 👩‍🚀 ",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    '"',
    "'",
    "\\",
    ":",
    ",",
    "<",
    "<|",
    "｜",
    "▁",
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


def stream(pieces: list[str], names: frozenset[str] = NAMES) -> tuple[str, Reading]:
    reader = VisibleText(names)
    streamed = "".join(reader.feed(piece) for piece in pieces)
    reading = reader.finish()
    return streamed, reading


def cut(text: str, places: list[int]) -> list[str]:
    bounds = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[begin:end] for begin, end in itertools.pairwise(bounds)]


def assert_same(text: str, pieces: list[str], names: frozenset[str] = NAMES) -> None:
    whole = read(text, names)
    streamed, reading = stream(pieces, names)
    assert (reading.text, reading.reasoning, reading.calls) == (whole.text, whole.reasoning, whole.calls)
    if not reading.retracted:
        assert streamed + reading.rest == reading.text


@settings(max_examples=700, deadline=None)
@given(texts, st.lists(st.integers(0, 500), max_size=8), st.sampled_from([NAMES, frozenset()]))
def test_every_split_of_an_answer_reads_the_same(text: str, places: list[int], names: frozenset[str]) -> None:
    assert_same(text, cut(text, places), names)


@settings(max_examples=200, deadline=None)
@given(texts, st.sampled_from([NAMES, frozenset()]))
def test_an_answer_that_comes_character_by_character_reads_the_same(text: str, names: frozenset[str]) -> None:
    assert_same(text, list(text), names)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab <>[]{}|`~\n\"'/:_▁｜>functio", max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_a_text_without_any_marker_comes_out_as_it_went_in(text: str, places: list[int]) -> None:
    if any(marker in text.lower() for marker in NOTATIONS):
        return
    streamed, reading = stream(cut(text, places))
    assert streamed + reading.rest == reading.text == text
    assert not reading.calls


def test_no_beginning_of_a_marker_is_lost_at_the_end() -> None:
    for beginning in BEGINNINGS:
        streamed, reading = stream(["Nine ", beginning])
        assert streamed + reading.rest == reading.text == "Nine " + beginning


def test_no_marker_is_the_beginning_of_another_one() -> None:
    assert not BEGINNINGS & set(NOTATIONS)


@pytest.mark.parametrize(
    ("text", "visible", "reasoning"),
    [
        ("Nine.", "Nine.", ""),
        ("\n\nNine.", "\n\nNine.", ""),
        ("<think>Look.</think>\n\nNine.", "Nine.", "Look."),
        ("<THINKING>Look.</Thinking>Nine.", "Nine.", "Look."),
        ("[THINK]Look.[/THINK]Nine.", "Nine.", "Look."),
        ("◁think▷Look.◁/think▷Nine.", "Nine.", "Look."),
        ("Before <think>x</think> after", "Before after", "x"),
        ("a<think>x</think>b<think>y</think>c", "abc", "x\ny"),
        ("Answer shortly.</think>\n\nGood morning!", "Good morning!", "Answer shortly."),
        ("<think>a <think>b</think> c</think>Nine.", "Nine.", "a <think>b\nc"),
        ("<think>a</think>The tag </think> ends it.", "The tag ends it.", "a"),
        ("<think>never closed", "", "never closed"),
        ("Models write a <think> tag first.", "Models write a <think> tag first.", ""),
        ("Use `<think>` and `</think>` tags.", "Use `<think>` and `</think>` tags.", ""),
        ("```\n<think>x</think>\n```\ndone", "```\n<think>x</think>\n```\ndone", ""),
        ("- list\n  ```\n  <think>x</think>\n  ```\ndone", "- list\n  ```\n  <think>x</think>\n  ```\ndone", ""),
        ("~~~\n<think>x</think>\n~~~", "~~~\n<think>x</think>\n~~~", ""),
        ("a ` b <think>x</think>\nc", "a ` b \nc", "x"),
        ("``a ` <think>`` b", "``a ` <think>`` b", ""),
        ("\n<think>x</think>\n    indented", "    indented", "x"),
        ("Done.<|im_end|>", "Done.", ""),
        ("<|channel|>analysis<|message|>Sum.<|end|><|start|>assistant<|channel|>final<|message|>14.", "14.", "Sum."),
        ("<|channel|>commentary<|message|>I will look.<|end|>", "I will look.", "I will look."),
        ("<|channel|>commentary<|message|>Hm.<|end|><|channel|>final<|message|>14.<|return|>", "14.", "Hm."),
        ("analysisUser says hi.assistantfinalHello!", "Hello!", "User says hi."),
        ("analysis of the tides: assistant required", "analysis of the tides: assistant required", ""),
        ("<|channel>thought\nHm.<channel|>Nine.", "Nine.", "thought\nHm."),
        ("", "", ""),
    ],
)
def test_reasoning_and_control_tokens_are_taken_out_and_examples_stay(text: str, visible: str, reasoning: str) -> None:
    reading = read(text, NAMES)
    assert (reading.text, reading.reasoning) == (visible, reasoning)
    assert_same(text, list(text))


def test_reasoning_that_the_template_opened_is_taken_back_when_its_end_comes() -> None:
    streamed, reading = stream(["Answer ", "shortly.", "</th", "ink>Good", " morning!"])
    assert streamed == "Answer shortly.Good morning!"
    assert (reading.text, reading.reasoning, reading.retracted) == ("Good morning!", "Answer shortly.", True)


def test_text_is_shown_as_soon_as_nothing_can_come_of_it() -> None:
    reader = VisibleText(NAMES)
    shown = [reader.feed(piece) for piece in ["The ", "gate <", "b>", "opens ", "`at", " 9` ", "a.m. <to", "ol_c"]]
    assert shown == ["The ", "gate ", "<b", ">opens ", "", "`at 9` ", "a.m. ", ""]
    assert reader.finish().rest == "<tool_c"


def test_a_json_answer_is_streamed_as_soon_as_it_can_not_be_a_call() -> None:
    reader = VisibleText(NAMES)
    assert reader.feed('{"ti') == '{"ti'
    assert reader.feed('tle": 1}') == 'tle": 1}'


def test_the_final_channel_is_streamed() -> None:
    reader = VisibleText(NAMES)
    pieces = [
        "<|channel|>analy",
        "sis<|message|>Hm",
        ".<|end|><|start|>assistant<|channel|>final<|message|>It is",
        " 14",
    ]
    assert [reader.feed(piece) for piece in pieces] == ["", "", "It is", " 14"]


@pytest.mark.parametrize(
    "text",
    [
        f"```xml\n<tool_call>{CALL}</tool_call>\n```",
        f"Like this:\n\n```\n{CALL}\n```",
        f"```json\n{CALL}\n```\nis a call.",
        f"`<tool_call>{CALL}</tool_call>` is a call.",
        f"> <tool_call>{CALL}</tool_call>",
        f"It is {CALL}.",
        f"{CALL} is a call.",
        '{"name": "ping"}',
        '{"name": "pong", "arguments": {}}',
        '[{"name": "ping", "arguments": {}}, {"name": "pong", "arguments": {}}]',
        '{"name": "ping", "arguments": {}, "phone": "12"}',
        '{"name": "ping", "arguments": [1]}',
        "<function=pong>\n</function>",
        '<invoke name="pong"></invoke>',
        "```tool_code\nimport os\nos.system('x')\n```",
        "```tool_code\nping(open('x'))\n```",
        "```tool_code\nping()\nprint(1 + 1)\n```",
        "```python\nping()\n```",
        "ping()",
        "[ping]",
        "[1] ping()",
        ">>> ping\n{}",
        ">>>pong\n{}",
        ">>> print(1)\n1",
        "functools.partial(ping)",
        "a <tool_call> is a tag",
        "<tool_call>{bad}</tool_call> is a tag, </tool_call> closes it",
        "Name, then [ARGS] and {}",
        "ping\nis a tool",
        "ping\n{} is how it is called",
        "commentary to=functions.pong json{}",
        "<tool_call>ping is a tag",
    ],
)
def test_an_example_or_a_document_is_never_a_call(text: str) -> None:
    reading = read(text, NAMES)
    assert not reading.calls
    assert reading.text == text
    assert_same(text, list(text))


def arguments_of(text: str, names: frozenset[str] = NAMES) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in read(text, names).calls]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"<tool_call>{CALL}</tool_call><tool_call>{CALL}</tool_call>", [("ping", "{}")] * 2),
        (f"<tool_call>\n{CALL}\n{CALL}\n</tool_call>", [("ping", "{}")] * 2),
        (f"<tool_call>{CALL}", [("ping", "{}")]),
        (f"<tool_call>[{CALL}]}}}}</tool_call>", [("ping", "{}")]),
        (f"<function_call>{CALL}</function_call>", [("ping", "{}")]),
        ('<functioncall> {"name": "ping", "arguments": \'{"a": 1}\'} </functioncall>', [("ping", '{"a": 1}')]),
        (f"<TOOLCALL>[{CALL}]</TOOLCALL>", [("ping", "{}")]),
        (f"[TOOL_REQUEST]{CALL}[END_TOOL_REQUEST]", [("ping", "{}")]),
        (f"functools[{CALL}]", [("ping", "{}")]),
        (f"<|tool_call|>[{CALL}]<|/tool_call|>", [("ping", "{}")]),
        ('<|tool_call|>[{"name": "ping", "arguments": "{\\"a\\": 1}"}]]}', [("ping", '{"a": 1}')]),
        (f"<|FunctionCallBegin|>[{CALL}]<|FunctionCallEnd|>", [("ping", "{}")]),
        (f"<|action_start|><|plugin|>{CALL}<|action_end|>", [("ping", "{}")]),
        ("<|tool_call_start|>[ping(), get_weather(city='Oslo')]<|tool_call_end|>", [("ping", "{}"), ("get_weather", '{"city": "Oslo"}')]),
        ('<|python_tag|>{"name": "ping", "parameters": {}}; {"name": "ping", "parameters": {}}<|eot_id|>', [("ping", "{}")] * 2),
        ('<|python_tag|>get_weather.call(city="Oslo")<|eom_id|>', [("get_weather", '{"city": "Oslo"}')]),
        ('[TOOL_CALLS]get_weather[CALL_ID]abc123[ARGS]{"city": "Oslo"}', [("get_weather", '{"city": "Oslo"}')]),
        ('[TOOL_CALLS]get_weather{"city": "Oslo"}', [("get_weather", '{"city": "Oslo"}')]),
        ('<|tool_calls_begin|><|tool_call_begin|>get_weather<|tool_sep|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_end|>', [("get_weather", '{"city": "Oslo"}')]),
        ('<function=get_weather>{"city": "Oslo"}</function>', [("get_weather", '{"city": "Oslo"}')]),
        ("<tool_call>ping</tool_call>", [("ping", {})]),
        ("<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</tool_call>", [("get_weather", {"city": "Oslo"})]),
        ('<minimax:tool_call><invoke name="get_weather"><parameter name="city">Oslo</parameter></invoke></minimax:tool_call>', [("get_weather", {"city": "Oslo"})]),
        ('<invoke name="get_weather">\n<parameter name="city">Oslo</invoke>', [("get_weather", {"city": "Oslo"})]),
        ("<function=get_weather>\n<parameter=city>\nOslo\n<parameter=days>\n3\n</function>", [("get_weather", {"city": "Oslo", "days": "3"})]),
        ("<function=get_weather>\n<parameter=city>\nOslo\n</function>\n<function=ping>\n</function>", [("get_weather", {"city": "Oslo"}), ("ping", {})]),
        ('[ping(), get_weather(city="Oslo", days=3)]', [("ping", "{}"), ("get_weather", '{"city": "Oslo", "days": 3}')]),
        ("```tool_code\nprint(default_api.get_weather(city='Oslo', on=True, tags=['a', \"b\"]))\n```", [("default_api.get_weather", '{"city": "Oslo", "on": true, "tags": ["a", "b"]}')]),
        (f"```json\n{CALL}\n```\n\n```json\n{CALL}\n```", [("ping", "{}")] * 2),
        (f"{CALL};{CALL}", [("ping", "{}")] * 2),
        (f'{{"tool_calls": [{CALL}]}}', [("ping", "{}")]),
        (f"<think>x</think>\n{CALL}<|im_end|>\n", [("ping", "{}")]),
        ('commentary to=functions.get_weather json{"city":"Oslo"}', [("functions.get_weather", '{"city": "Oslo"}')]),
        ('analysisHm.assistantcommentary to=functions.get_weather json{"city":"Oslo"}', [("functions.get_weather", '{"city": "Oslo"}')]),
        ('<|tool_call>call:get_weather{city:<|"|>Os}lo<|"|>,days:3,on:true,tags:[<|"|>a<|"|>,{x:1.50}]}<tool_call|>', [("get_weather", '{"city": "Os}lo", "days": 3, "on": true, "tags": ["a", {"x": 1.50}]}')]),
        ('get_weather\n{"city": "Oslo"}', [("get_weather", '{"city": "Oslo"}')]),
        ('<｜tool▁call▁begin｜>get_weather\n```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜>', [("get_weather", '{"city": "Oslo"}')]),
        ("<tool_call>ping</arg_value></tool_call>", [("ping", {})]),
        ("<tool_call>get_weather<arg_key>city</arg_key></arg_key><arg_value>Oslo</arg_value></tool_call>", [("get_weather", {"city": "Oslo"})]),
        ("<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value> a </arg_value> b </arg_value>\n</tool_call>", [("get_weather", {"city": " a </arg_value> b "})]),
        ("<|start|>assistant to=functions.ping<|channel|>commentary json<|message|>{}<|call|>", [("functions.ping", "{}")]),
    ],
)  # fmt: skip
def test_calls_of_every_notation_are_read_and_leave_no_text(text: str, calls: list[tuple[str, object]]) -> None:
    assert arguments_of(text) == calls
    assert not read(text, NAMES).text.strip()
    assert all(call.complete for call in read(text, NAMES).calls)
    assert_same(text, list(text))


def test_text_around_a_call_stays() -> None:
    reading = read(f"Before.\n\n<tool_call>{CALL}</tool_call>\n\nAfter.", NAMES)
    assert reading.text == "Before.\n\nAfter."
    assert read(f"Vorher <ns>x</ns> <tool_call>{CALL}</tool_call> Nachher", NAMES).text == "Vorher <ns>x</ns> Nachher"


def test_a_value_that_speaks_of_markup_survives_byte_for_byte() -> None:
    content = "# Doc\n\n  Write `</parameter>` or </parameter> here,\n<b>if a < b</b> &amp; </function> too\n"
    text = f"<function=wiki_write_page>\n<parameter=content>\n{content}\n</parameter>\n</function>"
    assert arguments_of(text) == [("wiki_write_page", {"content": content})]


def test_an_unknown_tool_in_an_unmistakable_envelope_is_a_call_that_will_be_refused() -> None:
    assert arguments_of('<tool_call>{"name": "pong", "arguments": {}}</tool_call>') == [("pong", "{}")]
    assert arguments_of('[TOOL_CALLS][{"name": "pong", "arguments": {}}]') == [("pong", "{}")]


def test_without_tools_markup_is_text_and_control_tokens_are_not() -> None:
    text = f"<tool_call>{CALL}</tool_call>"
    assert read(text, frozenset()) == Reading(text)
    assert read(f"[TOOL_CALLS][{CALL}]", frozenset()).text == ""


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "wiki_write_page", "arguments": {"path": "x", "content": "half',
        '<tool_call>\n{"name": "wiki_write_page", "arguments": {"path": "x"}',
        '<tool_call>\n{"na',
        '[TOOL_CALLS]wiki_write_page[ARGS]{"path": "x", "con',
        "<function=wiki_write_page>\n<parameter=path>\nx\n</parameter>\n<parameter=content>\nhalf",
        "<function=wiki_write_page>\n<parameter=path>\nx\n</parameter>\n",
        "<tool_call>wiki_write_page<arg_key>path</arg_key><arg_value>x</arg_value><arg_key>con",
        "<tool_call>wiki_write_page<arg_key>path</arg_key><arg_value>x</arg_value>",
        '<invoke name="wiki_write_page"><parameter name="path">x',
        ">>>wiki_write_page\n" + '{"path": "x", "content": "half',
        '<|tool_call>call:wiki_write_page{path:<|"|>x',
        "<|tool_call>call:wiki_write_page{path:x,con",
        '<|tool_call_begin|>functions.wiki_write_page:0<|tool_call_argument_begin|>{"path": "x", "con',
    ],
)
def test_a_call_that_ends_early_is_told_and_neither_shown_nor_completed(text: str) -> None:
    reading = read(f"One moment.\n{text}", NAMES)
    assert reading.text == "One moment.\n"
    assert [call.complete for call in reading.calls] == [False]
    assert_same(text, list(text))


def test_a_call_that_can_not_be_read_keeps_its_name_and_its_text() -> None:
    calls = read('<tool_call>{"name": "ping", "arguments": {a: 1}}</tool_call> Done.', NAMES).calls
    assert [(call.name, call.arguments, call.complete) for call in calls] == [("ping", "{a: 1}}", True)]


def test_numbers_keep_their_spelling() -> None:
    assert arguments_of(
        '<tool_call>{"name": "ping", "arguments": {"v": 1.10, "n": 12345678901234567890}}</tool_call>'
    ) == [("ping", '{"v": 1.10, "n": 12345678901234567890}')]


MEGABYTE = 1_000_000
HEAVY = {
    "angles": "<" * MEGABYTE,
    "brackets": "[" * MEGABYTE,
    "braces": '{"a":' * (MEGABYTE // 5),
    "backticks": "`" * MEGABYTE,
    "odd backticks": "".join("`" * (number % 60 + 1) + "a" for number in range(30_000)),
    "openers": "<tool_call>" * 100_000,
    "json openers": '<tool_call>{"name": "' * 100_000,
    "array openers": "<tool_call>[[" * 100_000,
    "functions": "<function=ping>" * 100_000,
    "functions with parameters": "<function=ping><parameter=a></parameter>x" * 30_000,
    "unknown functions": "<function=pong>" * 100_000,
    "invokes": '<invoke name="ping"><parameter name="a">' * 30_000,
    "glm": "<tool_call>ping<arg_key>" * 50_000,
    "thoughts": "a <think>" * 100_000,
    "closers": "a</think>" * 100_000,
    "channels": "<|channel|>" * 100_000,
    "analysis": "<|channel|>analysis<|message|>x<|end|>" * 30_000,
    "token calls": "<|tool_call_begin|>" * 60_000,
    "mistral": "[TOOL_CALLS]ping{" * 60_000,
    "recipients": ">>>ping\n" * 100_000,
    "nested": '<tool_call>{"name": "ping", "arguments": ' + "[" * MEGABYTE,
    "one string": '<tool_call>{"name": "ping", "arguments": {"a": "' + "x" * MEGABYTE,
    "spaces": " " * MEGABYTE,
    "strays": "<|im_end|> " * 100_000,
    "one line of code": "`a" + "b" * MEGABYTE,
    "python": "[ping(" + "a='x'," * 150_000,
    "fences": "```json\n" * 100_000,
    "gemma": "<|tool_call>call:ping{a:" * 40_000,
    "gemma nested": "<|tool_call>call:ping{a:" + "[" * MEGABYTE,
    "gemma quotes": '<|tool_call>call:ping{a:<|"|>' * 30_000,
    "stripped": "analysis" + "assistantanalysis" * 60_000,
    "glm values": "<tool_call>ping<arg_key>a</arg_key><arg_value>" + "</arg_value>x" * 70_000,
}


# The rest is read in a quarter of that size, where time that is not linear would show as well.
WHOLE = {"angles", "brackets", "braces", "nested", "openers", "json openers"}


@pytest.mark.parametrize("name", sorted(HEAVY))
def test_a_megabyte_of_anything_is_read_in_linear_time(name: str) -> None:
    text = HEAVY[name] if name in WHOLE else HEAVY[name][: MEGABYTE // 4]
    most = 0.5 + 4 * len(text) / MEGABYTE
    begin = time.process_time()
    read(text, NAMES)
    assert time.process_time() - begin < most
    begin = time.process_time()
    stream([text[at : at + 40] for at in range(0, len(text) // 4, 40)])
    assert time.process_time() - begin < most


def test_every_case_of_heavy_input_reads_the_same_in_pieces() -> None:
    chance = random.Random(7)
    for text in HEAVY.values():
        assert_same(text[:3000], cut(text[:3000], [chance.randrange(3000) for _ in range(40)]))
