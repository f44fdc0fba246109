"""Chat templates: the prompts that jinja2 itself makes of them, in bounded steps, and nothing that could run code."""
# ruff: noqa: E501  # templates are as long as they are

import json
import time

import pytest
from data_cases import pretrained
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from training_cases import settings

from simlab.errors import InputError
from simlab.llm.chat import ChatTemplate, Message
from simlab.llm.chat.values import FILTERS, MAPPING_METHODS, TESTS, TEXT_METHODS
from simlab.llm.tokenizer import read_tokenizer, write_tokenizer
from simlab.llm.training.run import train

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
TALK = [
    Message("system", "Be brief."),
    Message("user", " 2+2?\n"),
    Message("assistant", "4"),
    Message("user", "é <b> 'x'"),
]
ASKED = [Message("user", "What is 6 x 7?")]

# Written for this test, in the manner of the templates that models are published with.
TEMPLATES = {
    "roles between marks": """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + '\n' + message['content']
 + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}""",
    "headers, and a date if there is a clock": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\n\n" + "Today: " + date_string + "\n\n" + system_message }}
{%- for message in messages %}
    {{- '<|start|>' + message['role'] + '<|end|>\n\n' + message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant<|end|>\n\n' }}{%- endif %}
""",
    "a namespace and turns that alternate": """{%- set ns = namespace(last=-1, system='') -%}
{%- for message in messages if message.role == 'system' -%}{%- set ns.system = message.content -%}{%- endfor -%}
{%- set turns = messages | rejectattr('role', 'equalto', 'system') | list -%}
{%- for message in turns -%}
  {%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('turns must alternate') }}{%- endif -%}
  {%- if message.role == 'user' -%}[INST] {{ ns.system ~ '\n' if loop.last and ns.system else '' }}{{ message.content }} [/INST]
  {%- else -%}{{ ' ' ~ message['content'].strip() ~ eos_token }}{%- endif -%}
  {%- set ns.last = loop.index -%}
{%- endfor -%}{{ ns.last }}""",
    "macros, filters and slices": """{% macro shown(message, mark='*') %}{{ mark }}{{ message.role | upper }}: {{ message.content
 | tojson }}{% endmacro %}{% for message in messages[::-1] %}{{ shown(message, mark='-' * 0 if false else '#') }}
{% endfor %}{{ messages | map(attribute='role') | join(', ') }} {{ messages | length }}
{%- set text %}{% for role, n in [('a', 1), ('b', 2)] %}{{ role }}{{ n // 1 }}{% if not loop.last %};{% endif %}{% endfor %}{% endset %}
{{ text.split(';')[-1] }} {{ 'b' in text and 'z' not in text }} {{ text[0:2] | replace('a', 'A') }} {{ nobody | default('none') }}
{{ 'x' if messages is string else 'y' }} {{ {'k': 3}.get('k') + 2 - 1 }} {{ {'k': [1, none, true]} }} {{ 'abc'.startswith('a') }}
{% for key, value in {'one': 1}.items() %}{{ key }}={{ value }}{% else %}never{% endfor %}{% for m in [] %}{% else %}empty{% endfor %}
{% for n in range(9) %}{% if n == 2 %}{% continue %}{% endif %}{% if n > 4 %}{% break %}{% endif %}{{ n }}{% endfor %}
{% generation %}{{ messages[-1].content }}{% endgeneration %}""",
}


def by_jinja(source, messages):
    """What transformers makes of a template, without its extensions but for loops."""
    jinja2 = pytest.importorskip("jinja2")
    sandbox = pytest.importorskip("jinja2.sandbox")
    for mark in ("generation", "endgeneration"):
        source = source.replace(f"{{% {mark} %}}", "{% if true %}" if mark == "generation" else "{% endif %}")
    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    environment.globals["raise_exception"] = raise_exception
    given_messages = [{"role": role, "content": content} for role, content in messages]
    return environment.from_string(source).render(
        messages=given_messages, add_generation_prompt=True, tools=None, documents=None, **SPECIAL
    )


@pytest.mark.parametrize("messages", [ASKED, TALK], ids=["asked", "talk"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_the_one_that_jinja2_makes(name, messages):
    source = TEMPLATES[name].replace("mark='-' * 0 if false else '#'", "mark='#'")
    found = ChatTemplate(source, SPECIAL).render(messages)
    assert found == by_jinja(source, messages)
    assert len(found) > 10


TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), TEXTS), min_size=1, max_size=6))
def test_whatever_the_messages_say(talk):
    """Also what looks like a template: a message is never read as one."""
    messages = [Message(*each) for each in talk]
    for name in ("roles between marks", "headers, and a date if there is a clock"):
        assert ChatTemplate(TEMPLATES[name], SPECIAL).render(messages) == by_jinja(TEMPLATES[name], messages)


def test_a_message_is_no_template():
    found = ChatTemplate("{{ messages[0].content }}", {}).render([Message("user", "{{ 1 + 1 }}{% raw %}")])
    assert found == "{{ 1 + 1 }}{% raw %}"


HOSTILE = {
    "{{ ''.__class__ }}": "",  # what nobody has set prints nothing
    "{{ ''.__class__.__mro__ }}": "looks for '__mro__' in a value that is not defined",
    "{{ ''['__class__']['__base__'] }}": "looks for '__base__' in a value that is not defined",
    "{{ messages.append(1) }}": "calls 'append' of a list; known: nothing",
    "{{ messages[0].pop('role') }}": "calls 'pop' of a dict; known: get, items, keys, values",
    "{{ '{0.__class__}'.format(1) }}": "calls 'format' of a str",
    "{{ ('%s' | format(1)) }}": "has the filter 'format'; known: trim,",
    "{{ '%1000000000d' % 1 }}": "calculates with a str and a int",
    "{{ 'x' * 1000000000 }}": "calculates with a str and a int",
    "{{ 10 ** 10 ** 10 }}": "has an expression of the kind Pow",
    "{{ lipsum(1000) }}": "calls 'lipsum'; known: namespace, dict, range, raise_exception and its own macros",
    "{{ cycler.__init__.__globals__ }}": "looks for '__init__' in a value that is not defined",
    "{{ self._TemplateReference__context }}": "looks for '_TemplateReference__context' in a value that is not defined",
    "{% include 'x' %}": "has a statement of the kind Include",
    "{% import 'os' as os %}": "has a statement of the kind Import",
    "{% extends 'x' %}": "has a statement of the kind Extends",
    "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}": "takes more than 50000 steps",
    "{% for a in range(1000000000) %}{% endfor %}": "counts through 1000000000 numbers",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "macros call one another more than 16 deep",
    "{% set n = namespace(t='xxxxxxxxxxxxxxxx') %}{% for i in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}": "more than",
    "{% set n = namespace(t='xxxxxxxxxxxxxxxx') %}{% for i in range(99) %}{% set n.t = n.t.replace('x', n.t) %}{% endfor %}":
        "more than",
    "{% set n = namespace(t='x') %}{% for i in range(99) %}{% set n.t = [n.t, n.t] | join(n.t) %}{% endfor %}": "more than",
    "{% set n = namespace(a=[]) %}{% for i in range(99) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}": "reads or prints",
    "{% set n = namespace(a=[], b=[]) %}{% for i in range(99) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}"
    "{% endfor %}{{ n.a == n.b }}": "reads or prints",
    "{% set n = namespace(a=[], b=[]) %}{% for i in range(99) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}"
    "{% endfor %}{{ n.a in [n.b] }}": "reads or prints",
    "{% set n = namespace() %}{% set n.n = n %}{{ n }}": "reads or prints",
    "{% set n = namespace() %}{% set n.n = n %}{{ n | tojson }}": "reads or prints",
    "{% set n = namespace(i=9) %}{% for i in range(99) %}{% set n.i = n.i * n.i %}{% endfor %}": "counts beyond",
    "{{ 1 // 0 }}": "divides by zero",
    "{{ 1 + 'a' }}": "calculates with a int and a str",
    "{{ 1 < 'a' }}": "compares a int with a str",
    "{{ nobody() }}": "calls 'nobody'",
    "{% macro f() %}{% endmacro %}{{ f }}": "reads or prints a function",
    "{{ raise_exception('no system role') }}": "says: 'no system role'",
    "{{ 'a' is prime }}": "has the test 'prime'; known: defined,",
    "{{ 'a' | nothing }}": "has the filter 'nothing'; known: trim,",
    "{% if %}": "the chat template cannot be read",
    "{{ " + "(" * 5000 + ")" * 5000 + " }}": "the chat template cannot be read",
    "{{ [" + "[" * 20 + "]" * 20 + "] }}": "reads or prints",
    "a" * (2**16 + 1): "has 65537 characters; allowed: 65536",
}  # fmt: skip


@pytest.mark.parametrize(("source", "complaint"), HOSTILE.items(), ids=[source[:50] for source in HOSTILE])
def test_a_template_that_does_more_than_it_should_is_refused_in_one_line_and_soon(source, complaint):
    began = time.thread_time()
    if complaint:
        assert complaint in refusal(ChatTemplate(source, SPECIAL).render, ASKED)
    else:
        assert ChatTemplate(source, SPECIAL).render(ASKED) == ""
    assert time.thread_time() - began < 3


PIECES = st.sampled_from(
    [
        *(f"{{{{ x | {name} }}}}" for name in FILTERS),
        *(f"{{{{ x is {name} }}}}" for name in TESTS if name.isalpha()),
        *(f"{{{{ x.{name}() }}}}{{{{ x.{name}('a', 'b') }}}}" for name in (*TEXT_METHODS, *MAPPING_METHODS)),
        "{{ x[0] }}", "{{ x.a.b }}", "{{ x + x }}", "{{ x ~ x }}", "{{ x[1:] }}", "{{ x < x }}", "{{ x in x }}", "{{ -x }}",
        "{% for y in x %}{{ y }}{{ loop.nextitem }}{% endfor %}", "{% set x = [x, x] %}", "{% set x = {'a': x} %}",
        "{% set x = 3 %}", "{% set x = 1.5 %}", "{% set x = none %}", "{% set x = y %}", "{% set x = ('a', 1) %}",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=8))
def test_random_templates_render_or_are_refused_in_one_line(pieces):
    template = ChatTemplate("{% set x = 'ab' %}" + "".join(pieces), SPECIAL)
    try:
        found = template.render(ASKED)
    except InputError as error:
        found = str(error)
    assert " at 0x" not in found, "no address of this process"


@pytest.mark.transformers
@pytest.mark.parametrize("messages", [ASKED, TALK], ids=["asked", "talk"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_the_one_that_transformers_makes_of_a_model_that_a_run_leaves(tmp_path, name, messages):
    transformers = pytest.importorskip("transformers")
    if "strftime_now" in TEMPLATES[name]:
        pytest.skip("there is a clock in transformers")
    source = TEMPLATES[name].replace("mark='-' * 0 if false else '#'", "mark='#'")
    pretrained(tmp_path / "source", source)
    write_tokenizer(tmp_path / "left", read_tokenizer(tmp_path / "source"))
    left = transformers.AutoTokenizer.from_pretrained(tmp_path / "left")
    talk = [message._asdict() for message in messages]
    found = read_tokenizer(tmp_path / "left").chat_template.render(messages)
    assert left.apply_chat_template(talk, tokenize=False, add_generation_prompt=True) == found


@pytest.mark.transformers
def test_transformers_samples_by_what_the_run_sampled_by(tmp_path):
    transformers = pytest.importorskip("transformers")
    source = pretrained(tmp_path / "model")
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"prompt": f"{n}+1=", "answer": n + 1}) + "\n" for n in range(9))
    )
    asked = {"name": "data", "train": str(tmp_path / "a.jsonl"), "verifier": "number", "max_new_tokens": 4}
    train(
        settings({"task": asked, "model": {"source": source}, "rl": {"steps": 1, "temperature": 0.8}}), tmp_path / "run"
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "arms" / "grpo" / "seed-0" / "model")
    found = model.generation_config
    assert (found.do_sample, found.temperature, found.top_k, found.top_p) == (True, 0.8, 0, 1.0)
    assert (found.eos_token_id, found.pad_token_id, found.max_new_tokens) == ([2], 0, 4)
