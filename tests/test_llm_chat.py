"""Chat templates: the prompts of transformers, and one line for a template that fails."""
# ruff: noqa: E501  # templates are as long as they are

import json

import pytest
from data_cases import pretrained
from refusals import refusal
from training_cases import settings

from simlab.llm import tokenizer
from simlab.llm.tokenizer import ChatTemplate, Message, read_tokenizer, write_tokenizer
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
    "headers, and a date if there is a clock": """{{- bos_token }}
{%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}
{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
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
    "macros, filters and loops": """{% macro shown(message, mark='*') %}{{ mark }}{{ message.role | upper }}: {{ message.content
 | tojson }}{% endmacro %}{% for message in messages[::-1] %}{{ shown(message, mark='#') }}
{% endfor %}{{ messages | map(attribute='role') | join(', ') }} {{ messages | length }} {{ nobody | default('none') }}
{% for n in range(9) %}{% if n == 2 %}{% continue %}{% endif %}{% if n > 4 %}{% break %}{% endif %}{{ n }}{% endfor %}
{% generation %}{{ messages[-1].content }}{% endgeneration %}""",
}
PROMPTS = {
    "headers, and a date if there is a clock": "<s><|start|>system<|end|>\n\nToday: 26 Jul 2024\n\nBe brief.<|start|>user<|end|>\n\n"
    "2+2?<|eot|><|start|>assistant<|end|>\n\n4<|eot|><|start|>user<|end|>\n\né <b> 'x'<|eot|><|start|>assistant<|end|>\n\n",
    "macros, filters and loops": "#USER: \"é <b> 'x'\"\n#ASSISTANT: \"4\"\n#USER: \" 2+2?\\n\"\n#SYSTEM: \"Be brief.\"\n"
    "system, user, assistant, user 4 none\n0134é <b> 'x'",
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_the_one_that_was_written_down(name):
    assert ChatTemplate(TEMPLATES[name], SPECIAL).render(TALK) == PROMPTS[name]


def test_a_message_is_no_template():
    prompt = ChatTemplate("{{ messages[0].content }}", {}).render([Message("user", "{{ 1 + 1 }}{% raw %}")])
    assert prompt == "{{ 1 + 1 }}{% raw %}"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("{% if %}", "the chat template cannot be read: "),
        ("{{ raise_exception('no system role') }}", "the chat template is refused: no system role"),
        ("{{ 1 // 0 }}", "the chat template is refused: "),
        ("{{ nobody.role }}", "the chat template is refused: 'nobody' is undefined"),
        ("{{ ''.__class__.__mro__ }}", "the chat template is refused: "),  # the sandbox hides Python from a template
        ("{{ messages.append(1) }}", "the chat template is refused: "),  # and lets it change nothing
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "the chat template is refused: "),
    ],
)
def test_a_template_that_fails_is_refused_in_one_line(source, complaint):
    assert complaint in refusal(ChatTemplate(source, SPECIAL).render, ASKED)


def test_a_template_without_an_end_is_given_up(monkeypatch):
    monkeypatch.setattr(tokenizer, "TIME_LIMIT", 0.2)
    loops = "".join("{% for a in range(30) %}" for _ in range(4)) + "{% endfor %}" * 4
    assert "takes more than 0.2 seconds" in refusal(ChatTemplate(loops * 9, {}).render, ASKED)


@pytest.mark.transformers
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_the_one_that_transformers_makes_of_a_model_that_a_run_leaves(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    source = TEMPLATES[name].replace("strftime_now is defined", "false")  # transformers has a clock
    pretrained(tmp_path / "source", source)
    write_tokenizer(tmp_path / "model", read_tokenizer(tmp_path / "source"))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    ours = read_tokenizer(tmp_path / "model").chat_template
    for messages in (ASKED, TALK):
        turns = [message._asdict() for message in messages]
        assert theirs.apply_chat_template(turns, tokenize=False, add_generation_prompt=True) == ours.render(messages)


@pytest.mark.transformers
def test_transformers_samples_by_what_the_run_sampled_by(tmp_path):
    transformers = pytest.importorskip("transformers")
    source = pretrained(tmp_path / "model")
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"prompt": f"{n}+1=", "answer": n + 1}) + "\n" for n in range(9))
    )
    task = {"name": "data", "train": str(tmp_path / "a.jsonl"), "verifier": "number", "max_new_tokens": 4}
    layers = {"task": task, "model": {"source": source}, "rl": {"steps": 1, "temperature": 0.8}}
    train(settings(layers), tmp_path / "run")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "arms" / "grpo" / "seed-0" / "model")
    config = model.generation_config
    assert (config.do_sample, config.temperature, config.top_k, config.top_p) == (True, 0.8, 0, 1.0)
    assert (config.eos_token_id, config.pad_token_id, config.max_new_tokens) == ([2], 0, 4)
