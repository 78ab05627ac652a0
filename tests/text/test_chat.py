"""Chat templates: the text of `apply_chat_template`, and templates that try to get out."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.text.build import word_tokenizer
from clearhead.text.tokenizer import Tokenizer

CHATML = """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools' }}
    {%- for tool in tools %}
        {{- "\\n" }}{{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{% for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant'] %}
        {{- raise_exception('no role ' + message.role) }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {%- generation %}{{ message.content | trim }}{% endgeneration %}
    {{- '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
LLAMA = """{{ bos_token }}{% set ns = namespace(n=0) %}{% for m in messages %}
{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}
  {% set ns.n = ns.n + 1 %}{{ 'name' in m }}
{% generation %}{% set inside = 1 %}{% endgeneration %}{{ inside is defined }}
{% if loop.index0 > 5 %}{% break %}{% endif %}
{% endfor %}{{ ns.n }}{{ date if date is defined else 'today' }}{{ tools is none }}{{ m is defined }}"""
TALK = [
    {"role": "user", "content": " Hi <b>ü</b> 🙂 \n", "name": None},
    {"role": "assistant", "content": 'Hello & "welcome"'},
    {"role": "user", "content": "Bye"},
]
TOOLS = [{"type": "function", "function": {"name": "größe", "parameters": {"a": [1, 2.5, None, True], "<": "'"}}}]


def tokenizer(folder: Path, template: Any) -> Tokenizer:
    word_tokenizer(["a b"], bos=True, eos=True).save(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    return Tokenizer.load(folder)


@pytest.mark.parametrize("template", [CHATML, LLAMA])
@pytest.mark.parametrize(
    "options", [{}, {"add_generation_prompt": True}, {"tools": TOOLS}, {"date": "26 July", "bos_token": "<B>"}]
)
def test_the_text_is_the_home_librarys(template: str, options: dict[str, Any], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = tokenizer(tmp_path, template)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for talk in (TALK, TALK[:1], TALK * 4):
        expected = theirs.apply_chat_template(talk, tokenize=False, **options)
        assert ours.chat(talk, **options) == expected
        assert expected


def test_the_date_is_todays(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = tokenizer(tmp_path, "{{ strftime_now('%Y') }}")
    assert ours.chat(TALK) == AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(TALK, tokenize=False)


def test_a_template_of_its_own_file_comes_first_and_all_come_back(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "with {{ tools | length }}"}]
    ours = tokenizer(tmp_path, named)
    assert ours.chat(TALK) == "plain"
    assert ours.chat(TALK, tools=TOOLS) == "with 1"
    ours.save(tmp_path / "again")
    again = Tokenizer.load(tmp_path / "again")
    assert (again.chat(TALK), again.chat(TALK, tools=TOOLS)) == ("plain", "with 1")
    tokenizer(tmp_path, "alone").save(tmp_path / "one")
    assert json.loads((tmp_path / "one" / "tokenizer_config.json").read_text())["chat_template"] == "alone"
    assert Tokenizer.load(tmp_path / "one").chat(TALK) == "alone"
    (tmp_path / "chat_template.jinja").write_text("of the file, {{ messages[0].role }}")
    assert Tokenizer.load(tmp_path).chat(TALK, tools=TOOLS) == "of the file, user"


def test_the_text_of_a_chat_gets_no_further_special_tokens(tmp_path: Path) -> None:
    ours = tokenizer(tmp_path, "{{ bos_token }}a{{ eos_token }}")
    assert ours.encode(ours.chat(TALK), add_special_tokens=False) == [1, 3, 2]
    assert ours([ours.chat(TALK)], add_special_tokens=False)["input_ids"].tolist() == [[1, 3, 2]]
    assert ours.encode("a") == [1, 3, 2]


def test_without_a_template_or_messages_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no chat template \(chat_template\.jinja, or chat_template in tokenizer_conf"
    ):
        word_tokenizer(["a b"]).chat(TALK)
    with pytest.raises(ValueError, match="messages is empty"):
        tokenizer(tmp_path, CHATML).chat([])
    with pytest.raises(ValueError, match="must be plain data"):
        tokenizer(tmp_path, CHATML).chat([{"role": "user", "content": object()}])
    with pytest.raises(ValueError, match="the chat template refuses: no role wizard"):
        tokenizer(tmp_path, CHATML).chat([{"role": "wizard", "content": ""}])
    with pytest.raises(ValueError, match=r"the chat template refuses: .*unexpected"):
        tokenizer(tmp_path, "{{ 1 +* }}").chat(TALK)
    with pytest.raises(ValueError, match="the chat template fails: division by zero"):
        tokenizer(tmp_path, "{{ 1 / 0 }}").chat(TALK)


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ lipsum.__globals__['os'].getcwd() }}",
        "{{ self.__init__.__globals__.__builtins__ }}",
        "{{ (''|attr('__class__')).mro() }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ ('%s'|format) and '{0.__init__.__globals__}'.format_map({'0': joiner}) }}",
        "{{ raise_exception.__globals__['json'].__builtins__ }}",
        "{{ strftime_now.__globals__.keys() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns.__class__.__init__.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os.getcwd() }}",
        "{% for i in range(1000000000) %}x{% endfor %}",
    ],
)
def test_an_attacking_template_is_contained(attack: str, tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "Hi"}]
    with pytest.raises(ValueError, match=r"the chat template (refuses|fails)"):
        tokenizer(tmp_path, attack).chat(talk)
    assert talk == [{"role": "user", "content": "Hi"}]


def test_what_is_out_of_reach_is_empty(tmp_path: Path) -> None:
    assert tokenizer(tmp_path, "<{{ strftime_now.__globals__ }}{{ messages.__class__ }}>").chat(TALK) == "<>"
