"""Score an AI agent on a suite of research tasks, and judge the reports it writes.

    python eval_suite.py --agent 'my-agent {task}'   run the five fixed tasks, then check the reports
    python eval_suite.py --fast                      only check the reports that exist already
    python eval_suite.py --generated [PATH] --fast   fixed + generated tasks
    python eval_suite.py --agent ... --score         one number on stdout, for a tuning loop
    python eval_suite.py --generated --audit         prove the criteria, run nothing
    python eval_suite.py --compare OLD NEW           keep, revert or can't tell

which tasks
  --generated [PATH]     add the generated tasks (default file generated_tasks.json)
  --tasks IDS            only these tasks, by id, separated by commas
  --split tune|holdout   of the generated tasks only those to tune on, or those held out
  --holdout N            personas held out by --split (default 4)
  --split-seed S         seed that chooses the personas held out (default 0)
  --base DIR             folder of the reports (default ~/Desktop/harness-engineering)

how they are run
  --agent CMD            command line that runs the agent; {task} and {output} are filled in
                         (default $EVAL_AGENT)
  --fast                 run no agent, only check the reports that exist
  --capture              the report is what the agent prints on stdout
  --timeout S            seconds that one task may take (default 900)
  --jobs N               tasks run side by side (default 1)
  --repeat K             run each task K times (default 1)
  --log-dir DIR          folder in which to keep what the agent prints (default: kept nowhere, its
                         last lines are shown on an error)

what comes out
  --score                print only the score on stdout, all else on stderr
  --json FILE            write the results as JSON
  --junit FILE           write the results as JUnit XML
  --html FILE            write the results as an HTML page

other jobs
  --audit                prove the criteria of the tasks instead of running anything
  --compare OLD NEW      compare two --json files: KEEP, REVERT, OVERFIT or CAN'T TELL
  --margin M             gain above which --compare says KEEP (default 0)
  -h, --help             show this text

exit status: 0 all passed, 1 something failed, 2 wrong usage or bad data, 130 interrupted;
--compare: 0 KEEP, 1 REVERT or OVERFIT, 3 CAN'T TELL; --audit: 1 something is flagged

A task asks for one Markdown report, saved to one file. Its criteria are functions
`check(content) -> (passed, detail)`; the factories in CRITERIA make them. Every task of a suite is
a dict with `id`, `desc`, `task`, `output` and `criteria`. The README has the formats and the exact
meaning of each criterion.
"""

import os
import sys

# Help comes at once: before the imports, and with nothing to tear down.
if __name__ == "__main__" and not {"-h", "--help"}.isdisjoint(sys.argv[1:]):
    try:
        print(__doc__.strip(), flush=True)
    finally:
        os._exit(0)

import argparse
import functools
import json
import math
import re
import unicodedata

# ----------------------------------------------------------------------------------------------
# Data: where reports go, and the words that the criteria know
# ----------------------------------------------------------------------------------------------

BASE = "~/Desktop/harness-engineering"
GENERATED_FILE = "generated_tasks.json"

# Titles of sections that frame a report and are not among the items that it was asked for.
# Compared after _title_key(): letter case, accents and punctuation do not matter.
STRUCTURAL_TITLES = {
    "English": """introduction, intro, overview, background, abstract, summary, executive summary, exec summary,
        tl;dr, tldr, key takeaways, key takeaway, takeaways, main takeaways, conclusion, conclusions, in conclusion,
        concluding remarks, concluding thoughts, closing, closing remarks, closing thoughts, closing notes, closing words,
        final thoughts, final remarks, final words, final notes, wrap-up, wrapping up, next steps, next step, references,
        reference list, sources, sources cited, source list, bibliography, works cited, works consulted, citations,
        sources consulted, further reading, further readings, recommended reading, suggested reading, additional reading,
        additional resources, further resources, other resources, resources, table of contents, contents, toc,
        appendix, appendices, glossary, glossary of terms, methodology""",
    "German": """Einleitung, Einführung, Einfuehrung, Überblick, Ueberblick, Übersicht, Hintergrund, Kurzfassung, Zusammenfassung, Management Summary,
        Kernaussagen, Kernpunkte, wichtigste Erkenntnisse, die wichtigsten Erkenntnisse, wichtigste Punkte,
        das Wichtigste in Kürze, Fazit, Schluss, Schlussfolgerung, Schlussfolgerungen, Schlussbemerkung,
        Schlussbemerkungen, Schlusswort, Schlussbetrachtung, Schlussgedanken, abschließende Gedanken,
        abschließende Bemerkungen, nächste Schritte, weitere Schritte, Quellen, Quellenverzeichnis, Quellenangaben,
        Literatur, Literaturverzeichnis, Literaturangaben, Referenzen, Bibliographie, Bibliografie, Einzelnachweise,
        zitierte Werke, zitierte Literatur, Zitate, weiterführende Literatur, weiterführende Links,
        weiterführende Ressourcen, weitere Ressourcen, zusätzliche Ressourcen, weiterführende Lektüre,
        Inhalt, Inhaltsverzeichnis, Anhang, Anhänge, Glossar, Begriffsverzeichnis, Methodik, Methodologie""",
    "French": """introduction, vue d'ensemble, aperçu, contexte, résumé, résumé exécutif, sommaire exécutif, synthèse exécutive, résumé pour la direction, résumé analytique, synthèse,
        note de synthèse, en bref, points clés, points à retenir, à retenir, l'essentiel, l'essentiel à retenir,
        conclusion, conclusions, en conclusion, remarques finales, réflexions finales, mot de la fin, prochaines étapes,
        étapes suivantes, références, références bibliographiques, sources, bibliographie, ouvrages cités, œuvres citées,
        citations, lectures complémentaires, lectures recommandées, pour aller plus loin, ressources complémentaires,
        ressources supplémentaires, ressources additionnelles, table des matières, sommaire, annexe, annexes, glossaire,
        lexique, méthodologie""",
    "Spanish": """introducción, visión general, panorama general, descripción general, antecedentes, contexto, resumen,
        resumen ejecutivo, puntos clave, ideas clave, conclusiones clave, conclusión, conclusiones, en conclusión,
        reflexiones finales, comentarios finales, consideraciones finales, observaciones finales, palabras finales,
        próximos pasos, siguientes pasos, pasos siguientes, referencias, referencias bibliográficas, fuentes,
        bibliografía, obras citadas, trabajos citados, citas, lecturas adicionales, lectura adicional,
        lecturas recomendadas, lecturas complementarias, para saber más, recursos adicionales, otros recursos,
        índice, índice de contenidos, tabla de contenido, tabla de contenidos, contenido, apéndice, apéndices, anexo,
        anexos, glosario, glosario de términos, metodología""",
    "Portuguese": """introdução, visão geral, panorama geral, contexto, antecedentes, resumo, resumo executivo, sumário,
        sumário executivo, pontos-chave, pontos principais, principais conclusões, conclusão, conclusões, em conclusão,
        considerações finais, observações finais, reflexões finais, comentários finais, próximos passos, próximas etapas,
        referências, referências bibliográficas, fontes, bibliografia, obras citadas, trabalhos citados, citações,
        leitura adicional, leituras adicionais, leitura complementar, leituras complementares, leituras recomendadas,
        recursos adicionais, outros recursos, índice, conteúdo, tabela de conteúdo, apêndice, apêndices, anexo, anexos,
        glossário, metodologia""",
    "Italian": """introduzione, panoramica, panoramica generale, contesto, sommario, sommario esecutivo, riepilogo esecutivo, sintesi esecutiva, riassunto esecutivo, riassunto, sintesi,
        riepilogo, in breve, punti chiave, punti salienti, conclusione, conclusioni, in conclusione, osservazioni finali,
        considerazioni finali, riflessioni finali, note finali, prossimi passi, passi successivi, riferimenti,
        riferimenti bibliografici, fonti, bibliografia, opere citate, citazioni, letture consigliate, ulteriori letture,
        letture di approfondimento, letture aggiuntive, per approfondire, risorse aggiuntive, ulteriori risorse,
        altre risorse, indice, indice dei contenuti, appendice, appendici, allegato, allegati, glossario, metodologia""",
    "Chinese": """引言, 介绍, 简介, 导言, 导论, 前言, 序言, 绪论, 概述, 概览, 概要, 综述, 总览, 背景, 背景介绍, 摘要, 执行摘要, 执行总结, 核心摘要, 内容摘要, 总结, 小结,
        要点, 关键要点, 核心要点, 主要要点, 要点总结, 结论, 结语, 结束语, 最后的想法, 后续步骤, 下一步, 下一步行动, 下一步计划, 参考文献,
        参考资料, 参考, 来源, 资料来源, 信息来源, 数据来源, 引用, 引用文献, 引文, 书目, 延伸阅读, 扩展阅读, 拓展阅读, 进一步阅读, 更多资源, 其他资源,
        附加资源, 补充资源, 目录, 附录, 术语表, 词汇表, 方法论, 研究方法,
        介紹, 簡介, 導言, 導論, 緒論, 概覽, 綜述, 總覽, 背景介紹, 執行摘要, 總結, 小結, 要點, 關鍵要點, 核心要點, 重點摘要, 結論, 結語,
        結束語, 後續步驟, 參考文獻, 參考資料, 參考, 來源, 資料來源, 引用文獻, 書目, 延伸閱讀, 更多資源, 其他資源, 附加資源, 目錄, 附錄, 術語表,
        詞彙表, 方法論""",
    "Japanese": """はじめに, 序論, 序文, 序章, 導入, イントロダクション, 概要, 概観, オーバービュー, 背景, 要旨, 要約, 抄録, サマリー, サマリ,
        エグゼクティブサマリー, エグゼクティブ・サマリー, エグゼクティブサマリ, まとめ, 総括, 要点, 重要ポイント, 重要なポイント, 主なポイント, キーポイント,
        結論, 結び, 結語, むすび, おわりに, 終わりに, 最後に, 次のステップ, 次のアクション, 今後のステップ, ネクストステップ, 参考文献, 参考資料, 参考,
        参考リンク, 参照, 参照文献, 出典, 引用文献, 引用, 引用元, 情報源, 文献, 文献一覧, 関連文献, 関連資料, さらに読む, 追加リソース, その他のリソース, 参考リソース,
        目次, 付録, 附録, 補遺, 用語集, 用語解説, 方法論, 調査方法, 研究方法""",
}
APPENDIX_WORDS = "appendix|anhang|annexe|apendice|anexo|appendice|allegato|附录|附錄|付録|附録"
NUMBERED_PARTS = (
    "section|part|chapter|step|abschnitt|teil|kapitel|schritt|partie|chapitre|etape"
    "|seccion|parte|capitulo|paso|secao|etapa|sezione|capitolo|passo"
)
# What joins two titles ("Summary and next steps"): words need white space around them, signs do not.
TITLE_JOINERS = r"[\s,]+(?:and|und|et|y|e|ed)\s+|\s*(?:&|\+|/|,|;|\||・|、|(?<!ま)と|及び|および|及|和|与|與|並びに)\s*"

HTML_TAGS = frozenset(
    """a abbr address article aside audio b blockquote body br button canvas caption center cite code col colgroup data dd
    del details dfn dialog div dl dt em embed fieldset figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header
    hr html i iframe img input ins kbd label legend li link main map mark meta nav noscript object ol optgroup option p
    param picture pre progress q rp rt ruby s samp script section select small source span strike strong style sub
    summary sup svg path table tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr""".split()
)
CODE_TAGS = frozenset(("code", "kbd", "samp", "var", "pre", "tt"))

# ----------------------------------------------------------------------------------------------
# Reading a report: Markdown to blocks, once for all criteria
# ----------------------------------------------------------------------------------------------

INLINE_TAGS = frozenset(("Emphasis", "Strong", "Link", "Image"))
BLOCK_KINDS = {"Heading": "heading", "TableCell": "cell", "CodeBlock": "code", "HtmlBlock": "html", "Item": "item"}


@functools.lru_cache(maxsize=2)
def parse_report(content):
    """Return the report's non-empty blocks, top to bottom: a tuple of dicts.

    Each has `kind` ("heading", "text", "item" for the first block of a list item, "cell", "code",
    "html", or "meta" for front matter), `level` (1 to 6 for a heading, else 0), `top` (not in a quote
    or list), `text` (inline code stands between backticks, link targets are left out), `full` (the same
    with link targets), `targets` (a list of these), `lead` (the bold words that it opens with), `numbered` (in a numbered list), and for
    table cells `column` ("header" or the place in its row from 0; else None) and `under` (the text of the
    column's header).
    """
    import pyromark

    # A lone surrogate can't be encoded, and so not parsed; it shows as "?", as in most editors.
    source = content.removeprefix("\ufeff").encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    meta, source = _split_front_matter(source.replace("\r\n", "\n").replace("\r", "\n"))
    blocks: list = []
    parts: list = []  # of the block at hand; a link's target stands between NULs
    links: list = []
    lists: list = []
    headers: list = []
    kind, level, depth, in_code, bold, lead = "text", 0, 0, False, False, ""
    column: object = None

    def without_targets(marked):
        return re.sub("\0[^\0]*\0", "", marked) if "\0" in marked else marked

    def end_block():
        marked = "".join(parts)
        text, full = without_targets(marked), marked.replace("\0", "")
        if kind != "code":
            text, full = text.strip(), full.strip()
        if text or kind == "code":
            targets = re.findall("\0 <([^\0]*)>\0", marked) if text != full else []
            block = {"kind": kind, "level": level, "top": depth == 0, "text": text, "full": full, "targets": targets, "lead": lead}
            under = headers[column] if isinstance(column, int) and column < len(headers) else ""
            blocks.append(block | {"numbered": bool(lists and lists[-1]), "column": column, "under": under})

    if meta:
        kind, parts = "meta", [meta]
        end_block()
        kind, parts = "text", []
    for event in pyromark.events(source, options=pyromark.Options.ENABLE_TABLES):
        name, value = (event, "") if isinstance(event, str) else next(iter(event.items()))
        if name == "Text":
            raw = kind == "code" or kind == "html"
            parts.append(value if raw else f"`{value}`" if in_code else value.replace("`", "'"))
        elif name == "Start" or name == "End":
            tag, data = (value, {}) if isinstance(value, str) else next(iter(value.items()))
            start = name == "Start"
            if tag in INLINE_TAGS:
                if tag == "Strong" and start and not parts:
                    bold = True
                elif tag == "Strong" and not start and bold:
                    lead, bold = without_targets("".join(parts)).strip(), False
                elif tag == "Link":
                    links.append(data["dest_url"]) if start else parts.append(f"\0 <{links.pop()}>\0")
                continue
            before = len(blocks)
            if parts or kind == "code":
                end_block()
                kind, parts, lead, bold, in_code = "text", [], "", False, False
            if tag == "Item" or tag == "BlockQuote":
                depth += 1 if start else -1
            elif tag == "List":
                lists.append(data is not None and data != {}) if start else lists.pop()
            elif tag in ("Table", "TableHead", "TableRow"):
                column = None if not start or tag == "Table" else "header" if tag == "TableHead" else -1
                headers = [] if tag == "Table" else headers
            elif tag == "TableCell" and column == "header":
                headers += [] if start else [blocks[-1]["text"] if len(blocks) > before else ""]
            elif tag == "TableCell" and start and isinstance(column, int):
                column += 1
            if not start:
                kind, level = "text", 0
            elif tag != "Paragraph" or kind != "item":
                kind = BLOCK_KINDS.get(tag, "text")
                level = int(data["level"][1]) if tag == "Heading" else 0
        elif name == "Code":
            parts.append("`" + value.replace("`", "'") + "`")
        elif name == "InlineHtml":
            tag = re.match(r"</?([A-Za-z][\w-]*)", value)
            tag_name = tag[1].lower() if tag else ""
            if tag_name in CODE_TAGS:
                in_code = value[1] != "/"
            elif tag_name == "br":
                parts.append("\n")
            elif tag_name not in HTML_TAGS and not (kind == "heading" and value.startswith("<!--")):
                parts.append(value)  # in a title, "<!-- omit in toc -->" is no part of it
        else:  # Html, and SoftBreak, HardBreak and Rule, which carry no text
            parts.append(value or "\n")
    return tuple(blocks)


def _split_front_matter(source):
    """Return (a leading YAML block between --- lines or "", the rest); a rule followed by prose is none."""
    if not source.lstrip("\n").startswith("---"):
        return "", source
    lines = source.lstrip("\n").split("\n")
    if lines[0].rstrip() != "---":
        return "", source
    keys = 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return ("\n".join(lines[1:number]), "\n".join(lines[number + 1 :])) if keys else ("", source)
        # Every line of a mapping is "key: value", a continuation, a list entry or a comment. A heading
        # after an empty line is Markdown: what came before was a rule and a sentence with a colon.
        if re.match(r"[\"']?[\w@][\w ./@-]*[\"']?\s*:(?:\s|$)", line):
            keys += 1
        elif not re.match(r"\s*$|\s+\S|-\s|#|[\]}\"']", line) or re.match(r"#{1,6} ", line) and not lines[number - 1].strip():
            break
    return "", source


def _sections(blocks, bold=False):
    """Yield (heading block, the blocks below it up to the next heading of any level).

    With `bold`, a paragraph that is bold from end to end is a heading too.
    """
    heading = None
    body: list = []
    for block in blocks:
        if block["kind"] == "heading" or bold and block["lead"] and block["lead"] == block["text"]:
            if heading:
                yield heading, body
            heading, body = block, []
        else:
            body.append(block)
    if heading:
        yield heading, body


def _h2_titles(content):
    """Return the titles of the report's sections: the H2 headings at its top level that have a title."""
    blocks = parse_report(content)
    return [_one_line(b["text"].replace("`", "")) for b in blocks if b["level"] == 2 and b["top"]]


def _masked(text):
    """Return a block's text with each piece of inline code replaced by a word."""
    return re.sub(r"`[^`]*`", "`code`", text) if "`" in text else text


def _one_line(text, width=70):
    """Fold white space, drop what would command a terminal, and cut to `width` characters."""
    text = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


# ----------------------------------------------------------------------------------------------
# Criteria: sections and size
# ----------------------------------------------------------------------------------------------


def _fold(text):
    """Return the text in lower case without accents, emoji and other signs that carry no meaning."""
    if text.isascii() and ":" not in text and "{" not in text:
        return text.lower()
    text = re.sub(r":[a-z0-9_+-]+:|\{#[^}]*\}", " ", unicodedata.normalize("NFKC", text).casefold())
    kept = (c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) not in FOLDED_AWAY)
    return "".join(kept)


FOLDED_AWAY = frozenset(("Mn", "Me", "So", "Sk", "Cf", "Cs", "Co", "Cn", "Cc"))


def _title_key(folded):
    """Return what two titles are compared by: the words alone."""
    return " ".join(re.findall(r"[^\W_]+", folded))


@functools.cache
def _structural_keys():
    return frozenset(_title_key(_fold(t)) for table in STRUCTURAL_TITLES.values() for t in table.split(","))


def _without_numbering(folded):
    """Take "1.", "2)", "IV.", "A.", "Section 3:", "第1章" and the like off the front of a folded title."""
    mark = r"\s*(?:[.:)|]|[–—-](?=\s))+\s*"
    spelled = "one|two|three|four|five|six|seven|eight|nine|ten|eins|zwei|drei|un|deux|trois|uno|dos|tres"
    patterns = (
        rf"(?:{NUMBERED_PARTS})\s+(?:\d+(?:\.\d+)*|[ivxlc]+|[a-z]|{spelled})\b(?:{mark}|\s*)",
        r"第?\s*[\d一二三四五六七八九十]+\s*[章节節部回]分?\s*[.:、-]?\s*",
        r"[一二三四五六七八九十壹贰叁肆伍]+(?:\s*[、.:)]\s*|\s+)",
        rf"\(?(?:[ivxlc]+|[a-z])(?:{mark})",
        rf"\(?\d+(?:\.\d+)*(?:{mark}|、|\s*)",
    )
    folded = re.sub(r"^(?!\()[\W_]+", "", folded)
    return re.sub(f"^(?:{'|'.join(patterns)})", "", folded)


@functools.lru_cache(maxsize=1024)
def is_structural(title):
    """Tell whether an H2 title frames the report (introduction, references, ...) in any of the known languages."""
    folded = _without_numbering(_fold(title).strip())
    outside = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", " ", folded)
    return _is_listed(outside if _title_key(outside) else folded)


def _is_listed(folded):
    known, key = _structural_keys(), re.sub(r"^(?:the|a|an|our) ", "", _title_key(folded))
    if key in known or re.fullmatch(rf"(?:{APPENDIX_WORDS}) ?(?:[a-z]|\d+|[ivx]+|[一二三四五六七八九十]+)?", key):
        return True
    # "Summary: what to do" and "Conclusion - final thoughts" are a title and its subtitle.
    head = re.split(r":|—|–|;|\s[|-]+\s", folded, maxsplit=1)[0]
    if head != folded and _title_key(head):
        return _is_listed(head)
    parts = [_title_key(part) for part in re.split(TITLE_JOINERS, folded)]
    # A gloss in another script needs no brackets: "結論 Conclusion".
    gloss = re.fullmatch(r"([^a-z]+?) ?([a-z][a-z ]+)", key)
    return all(p in known for p in (gloss.groups() if gloss else parts))


def _criterion(name, check):
    """Give a check the name that tables and reports show."""
    check.__name__ = check.__qualname__ = name
    return check


def check_name(check):
    """Return the name of a check for tables and reports; a user's own may have none."""
    return getattr(check, "__name__", None) or type(check).__name__


def _counting(name, n, noun, count, exactly=False):
    """Return the criterion that asks for n of what `count(content)` counts: how many there are, and words that show them."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a whole number of at least 1, not {n!r}")

    def check(content):
        size, shown = count(content)
        passed = size == n if exactly else size >= n
        need = "" if passed else f", need {'exactly' if exactly else 'at least'} {n}"
        return passed, _count(size, noun) + need + shown

    return _criterion(f"{name}({n})", check)


def _count(n, noun):
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _titles(titles):
    return ": " + ", ".join(_one_line(t, 50) for t in titles) if titles else ""


def exact_sections(n):
    """Exactly n (int >= 1) H2 sections that are not structural. Raises ValueError for another n."""

    def count(content):
        titles = _h2_titles(content)
        counted = [t for t in titles if not is_structural(t)]
        aside = [t for t in titles if is_structural(t)]
        return len(counted), _titles(counted) + (f" (not counted{_titles(aside)})" if aside else "")

    return _counting("exact_sections", n, "content section", count, exactly=True)


def min_sections(n):
    """At least n (int >= 1) H2 sections of any kind that have a title. Raises ValueError for another n."""

    def count(content):
        titles = _h2_titles(content)
        return len(titles), _titles(titles)

    return _counting("min_sections", n, "section", count)


def min_bytes(n):
    """At least n (int >= 1) bytes of UTF-8. Raises ValueError for another n."""
    return _counting("min_bytes", n, "byte", lambda content: (len(content.encode("utf-8", "surrogatepass")), ""))


def min_lines(n):
    """At least n (int >= 1) lines up to the last one that is not blank. Raises ValueError for another n."""

    def count(content):
        text = content.replace("\r\n", "\n").replace("\r", "\n").rstrip()
        return (text.count("\n") + 1 if text.strip("\ufeff") else 0), ""

    return _counting("min_lines", n, "line", count)


# ----------------------------------------------------------------------------------------------
# Criterion: no placeholders
# ----------------------------------------------------------------------------------------------

MARKERS = r"(?:TODO|TBD|FIXME|XXX)"
# Verbs that open an instruction to the writer, alone and where an article must follow to tell them from nouns.
WRITER_VERBS = (
    r"(?:(?:(?:briefly|clearly|shortly|please) )?(?:insert|add|fill(?: in| out)?|enter|provide|describe|include|write|put|replace|specify|list|explain|attach|paste"
    r"|summari[sz]e|expand|elaborate|cite(?! as)|mention|outline|discuss|complete(?= (?:this|the|with|later)\b)|(?:state|identify|quantify|define|give|name|choose|select|note|set out"
    r"|compare|show|use|draw|keep|detail|check|verify|confirm)(?= (?:an?|the|your|any|each|every|main|key|one|two|this|these|bullet|\d)\b)))"
)
# The same in other languages, and the words for "here" and "still missing" that go with them.
WRITER_WORDS_ELSEWHERE = (
    r"einfügen|einsetzen|eintragen|ergänzen|ausfüllen|beschreiben|nachtragen|überprüfen|vérifier|rédiger|rédigez|verificar|confirmar|redactar|redigir|redigere|verificare|insérer|insérez|compléter|complétez|ajouter|ajoutez|décrire|décrivez|à préciser|insertar|inserte|inserta"
    r"|rellenar|completar|añadir|añada|agregar|describir|describa|inserir|insira|preencher|preencha|adicionar|descrever|descreva|inserire|inserisci|compilare|aggiungere|descrivere"
    r"|填写|填寫|填入|插入|待补充|待補充|待填|待完善|此处添加|在此|描述|記入|入力してください|追記|挿入|記載してください|ここに|後で|説明してください"
)
# "To be completed", as a writer leaves it in place of the text.
MISSING_ELSEWHERE = r"noch zu ergänzen|wird noch ergänzt|à compléter|por completar|a completar|da completare|待补充|待補充|追記予定"
# What "add ... here" tells the writer to supply, as against "enter your password here" for a reader.
WRITER_OBJECTS = (
    r"(?:example|content|text|figure|chart|image|table|diagram|screenshot|data|detail|description|summary|code|link"
    r"|citation|reference|quote|source|introduction|conclusion|analysis|number|statistic|section|graph|logo|name|title|explanation|note|result)s?"
)
PICTURES = r"(?:diagram|chart|graph|screenshot|image|figure|photo|picture|illustration|logo|table)"
FIELD_NOUNS = (
    r"(?:company|caption|date|name|city|year|month|amount|percentage|number|figure|link|source|author|title|client|customer|value|currency|location|address|phone|e-?mail"
    r"|url|price|metric|team|department|role|country|region|industry|product|project|topic|position|competitor|vendor|recipient|organi[sz]ation|job)"
)
# Nouns before "to be filled": these are filled by people and machines, not by the writer.
FILLABLE_THINGS = (
    r"(?:form|field|questionnaire|survey|vacancy|vacancies|position|role|post|seat|order|gap|slot|template|applications|cavity|jobs|hire|tank|bottle|reservoir|headcount"
    r"|prescription|blank|opening|shift|box|cell|timesheet|declaration|checklist|log|sheet|table|queue|pool|cache|buffer)"
)
# Words by which a sentence talks about a placeholder instead of containing one.
SPOKEN_ABOUT = r"placeholders?|templates?|literal(?:ly)?|strings?|phrases?|words?|such as|like|boilerplate|left in|leftovers?|unfilled"
SCREEN_WORDS = r"click|press|tap|select|choose|hit|push|button|dialog|toolbar|menu|screen|tab|shortcut|label(?:led)?|column|option"
MARKER_COLUMNS = r"meaning|definition|expansion|type|marker|tag|comment|kind|keyword|label|term|abbreviation|acronym|annotation|status|state|pattern|string|token"
# What follows a marker that is being explained or counted: "FIXME: marks broken code", "TODO: 187".
EXPLAINING = (
    r"marks?|means?|denotes?|indicates?|signals?|flags?|is|are|stands?|leaves?|notes?|reminds?|used|for|comments?|tags?|items?|markers?|tasks?|count|lists?|apps?"
    r"|an? [\w -]{1,40} (?:that|which|for)\b|\d+"
)
MARKER_VERBS = (
    r"(?:add|write|finish|fill|insert|check|verify|confirm|update|find|include|describe|complete|expand|explain|benchmark|measure|replace|remove|fix|investigate|clarify"
    r"|document|define|ask|get|put|decide|re-?run|rewrite|cite|link)\b(?! (?:took|takes|is|are|was|were)\b)"
)
TO_COME = r"(?:added|completed|written|determined|decided|announced|confirmed|provided|supplied|inserted|updated|expanded|defined|filled in|filled)"

SLOT = r"[^\]\[<>{}【】［］\n]{0,80}"  # what one pair of brackets may hold; bounded, so that a row of them costs little
# An instruction to the writer, as it stands inside brackets of any kind.
INSTRUCTION = (
    rf"(?:(?:please )?{WRITER_VERBS} \w{SLOT}|your [\w(]{SLOT}|{SLOT}\bplaceholder\b{SLOT}|{SLOT}\b(?:goes|go|comes|add|insert) here"
    rf"|(?:to be|tb) (?:{TO_COME})\b{SLOT}|{SLOT}(?:{WRITER_WORDS_ELSEWHERE}){SLOT}|coming soon|{PICTURES} (?:here|to come)|(?:citation|source|reference)s? needed"
    rf"|(?:[\w-]+ ){{0,3}}(?:TODO|TBD|FIXME)|xx+)[.!…]*"
)
# What is left unfilled in one line of prose, inline code masked: name -> (signs without one of which the
# pattern can't fit, tried first because they are cheap; the pattern). Where none of these shapes fits,
# the words are the subject of the sentence and so allowed.
UNFILLED = {
    "an instruction in brackets": (
        ("[", "［", "【", "<", "{"),
        rf"(?i)(?<![\w\])])(?:\[|［|【|<(?! )|\{{(?!\{{))\s*{INSTRUCTION}\s*(?:\]|］|】|(?<! )>|\}})(?! (?:button|menu|key|tab|link|option|icon)\b)",
    ),
    "an unfilled bracket": (
        ("[", "{", "<", "insert "),
        rf"(?i)(?<![\w\])])\[(?:(?:your|the|first|last|full|start|end|due|company|client|customer|user|author|analyst|project|product|team)[ _])?{FIELD_NOUNS}(?:[ _](?:name|title|number|[a-z]|here))?\](?![(:\[])"
        rf"|(?<![\w\])])\[\s*your[_-][\w -]{{1,40}}\]|\[(?:金额|金額|日期|姓名|公司|名称|betrag|datum|nom|montant|importe|fecha|nombre|valor)\]|^\W*\[(?:[\w ]{{1,30}} )?{PICTURES}(?:\s+\d+)?(?:(?: of |: ).{{1,80}})?\]\W*$"
        rf"|\[(?-i:(?:INSERT|YOUR|ADD|COMPANY|CLIENT|PROJECT|PRODUCT|CUSTOMER)_[A-Z_]+)\]"
        r"|(?<=\w )\[(?-i:X|XX|N)\] ?(?:%|percent|million|\w+s\b)|(?<=: )\[(?:e\.g\.,? [^\]]{1,60}|\w+(?:/\w+)+)\]"
        rf"|(?<![\w$\\{{])\{{(?:your[ _]\w+|topic|name|company|client|date|title|author)\}}(?!\}})|(?:^(?:hello|hi|dear)|\bauthor:|\bby:) <(?:\w+[-_ ])?{FIELD_NOUNS}>|<(?-i:YOUR)_\w+>"
        r"|\[(?:an? |the )?(?:brief|short|concise|detailed|one[- ](?:line|sentence|paragraph)) [a-z][^\[\]]{3,80}\](?![(:\[])"
        r"|(?-i:\$\{(?:(?:PROJECT|COMPANY|CLIENT|PRODUCT|TEAM|CUSTOMER|REPORT|AUTHOR)_[A-Z]+|TOPIC|TITLE)\}|^\W*INSERT(?! INTO\b)(?: [A-Z]+)+\W*$)",
    ),
    "a template variable": (("{{",), r"(?<![\w$\\{}])\{\{\{?\s*[.#/]?\w[\w .|-]{0,60}\}\}"),
    "a template value": (
        ("your name", "yyyy", "x%", "$x", "€x", "xx ", "x.x"),
        r"(?i)^\W*[\w ]{1,20}:\W*(?:your name|yyyy-mm-dd|dd/mm/yyyy|mm/dd/yyyy)\W*$|\b(?:fell|rose|grew|increased|decreased|improved|dropped|reduced|up|down) by (?-i:X{1,3}) ?%"
        r"|[$€£](?-i:X{1,3})\b(?! is\b)|\b(?-i:XX) (?=[a-z]+s\b)|\b(?-i:X{1,3}\.X+)\b",
    ),
    "a marker": (
        ("todo", "tbd", "fixme", "xxx"),
        rf"^\W*{MARKERS}\W*$|[\[(【]\s*{MARKERS}\s*[\])】]"
        rf"|(?:^\W{{0,6}}|[.!?;]\s+|[(\[]\s*){MARKERS}(?:\([\w .@-]+\))?\s*(?::|\s[–—-])\s*(?!(?i:(?:{EXPLAINING})\b|t[\w-]*[- ]b\w* d\w*))\S"
        rf"|(?:^\W{{0,6}}|[.!?;]\s+|[(\[]\s*)(?:{MARKERS}\s+{MARKER_VERBS}|TBD by )"
        rf"|^\W{{0,6}}(?:\d+\]:\s*)?(?:TODO|FIXME)\s+(?:the|this|these|our|(?!(?:{EXPLAINING}|left|came|became|got|\w+(?:s|ed))\b)[a-z]+ (?:the|an?|this|these|our|all))\b"
        rf"|^\W{{0,6}}(?:\d+\]:\s*)?(?:TODO|FIXME)\s+(?i:(?:{WRITER_WORDS_ELSEWHERE})\b)",
    ),
    "a value left open": (
        ("todo", "tbd", "tba", "tbc", "t.b.", "fixme", "xx"),
        r"(?:[:=–—]|\b(?:is|are|was|remains?|still|currently|until|by|due))\s+\W{0,6}(?:TBD|TBA|TBC|FIXME|XXX)\b"
        r"(?=\W*$|\s*[.,;)\]|]|\s+\(|\s+(?:by|in|after|pending|with|once|until|later|soon|as)\b)"
        r"|[:=]\s*\W{0,6}TODO(?: \([^)]*\)| [–—-] .*)?\W*$|[$€£]\s?(?:XXX?|TBD)\b|\bXXX?\s?(?:%|USD|EUR|ms|users|customers|participants|respondents|patients|employees|companies|percent|dollars|million)"
        r"|(?i:\b(?:date|owner|time|venue|price|cost|budget|eta|speaker|location|status|deadline|version|value|scope|name|amount|q[1-4]|lead) )TBD\b(?! (?:column|tag|marker))"
        r"|\b(?:versions?|about|around|roughly|approximately|costs?) XXX\b|(?:^|[:|]\s*)\W{0,4}T\.B\.[DAC]\.?\W*$|^\W*(?:TBA|TBC)\W*$|^\W*TBD (?:\(|after |pending |in |with |once )",
    ),
    "a marker in lower case": (
        ("todo", "tbd", "fixme", "to do", "to-do"),
        rf"(?i)(?:^|:\s*)(?-i:tbd|Tbd)\W*$|^\W{{0,6}}(?:todo|to[- ]do|fixme):\s+{MARKER_VERBS}|^\W*(?:tbd|fixme)\W*$",
    ),
    "lorem ipsum": (
        ("lorem ipsum", "dolor sit amet"),
        r"(?i)^\W*lorem ipsum\W*$|\bdolor sit amet\b|\blorem ipsum dolor\b(?![^\"”“]{0,40}[\"”])|^\W*lorem ipsum,? (?:sit|amet|consectetur)",
    ),
    "text to be filled in": (
        ("be filled",),
        r"(?i)\bto be filled in\b|^\W*(?:(?:the |this )?(?:section|results?|details?|content|text|numbers?|figures?|data|summary|analysis|findings)[: ]+(?:is |are |still )?)?to be filled(?: out| later| soon| by .{1,40})?\W*$"
        r"|\b(?:will|must|should) be filled in later\b",
    ),
    "text to be written": (
        (" be ", "to be"),
        r"(?i)(?:^|[:(|–—-])\W{0,6}(?:(?:this section|content|details?|text|figures?|results?|numbers?|data|section|examples?|charts?) (?:is |are |will |still )?)?"
        rf"to (?:come|be {TO_COME})(?: later| soon| here| by [\w ]{{1,40}})?(?<!:)[\s.!)\]*_]*$"
        r"|\b(?:this|the) (?:section|subsection|chapter|paragraph)\b[^.,]{0,20}\b(?:will|needs? to|is to|still has to) be (?:filled|completed|written|added|expanded|updated)\b"
        rf"|\b(?:results?|numbers?|figures?|data|details?|content|charts?|examples?) (?:will|to) be {TO_COME} (?:later|soon|once|here|when|after)\b",
    ),
    "an instruction to the writer": (
        (" here", " this ", "(insert ", "(add "),
        r"(?i)(?:^|[.!?:]\s+)\W{0,6}(?:please )?(?:add|insert|put|place|write|provide|include|paste) "
        rf"(?:(?:an?|the|your|some|more|one|concrete|relevant|real|short|full|main|code|final) ){{0,3}}{WRITER_OBJECTS}(?: \w+){{0,3}} here\W*$"
        r"|(?:^|[.!?]\s+)\W{0,6}(?:replace|rewrite) this (?:text|paragraph|section|sentence|placeholder)\b(?! of)|\b(?:remove|delete) this (?:text|paragraph|section|sentence|placeholder) (?:before|when|if)\b"
        rf"|^\W*(?:your (?:\w+ )?{WRITER_OBJECTS}|[\w ]{{1,40}} goes) here\W*$|\((?:insert|add) (?:an? |the |your )?{WRITER_OBJECTS}\)|\((?:insert|add|put) [^()]{{3,60}} here\)",
    ),
    "text still missing": (
        ("compl", "préciser", "ergänz", "einf", "eintragen", " ici", " aqu", " qui", "待补充", "待補充", "追記"),
        rf"(?i)^\W*(?:{MISSING_ELSEWHERE}|à préciser|wird ergänzt|hier .{{3,60}} (?:einfügen|ergänzen|eintragen)"
        r"|(?:insérer|ajouter) .{3,60} ici|(?:insertar|añadir|agregar) .{3,60} aquí|(?:inserir|adicionar) .{3,60} aqui|(?:inserire|aggiungere) .{3,60} qui)\W*$",
    ),
}
ELLIPSIS = r"\W*(?:\.\.\.|…)\W*"
PROMISE = (
    rf"(?i)\W*(?:(?:text|content)(?: goes)? here|work in progress|wip|(?:this section is |still )?under construction|(?:this (?:section )?is a )?placeholder(?: text)?(?: for .{{1,80}})?|(?:(?:wip|tbd|todo)\W+)?(?:to )?(?:fill(?: this)?(?: in| out)?|write|add|complete|finish|expand)(?: \w+){{0,3}} later|(?:to be|not yet) (?:done|drafted|written)|tbc|tba|pendiente|à venir|folgt|待定|(?:more )?(?:details?|information|content|text)?\s?(?:to follow|to come|coming soon)|to be {TO_COME}(?: .{{1,80}})?"
    rf"|tbd|todo|{WRITER_VERBS} .{{3,80}} here|{MISSING_ELSEWHERE}|待完善|後で追記)\W*"
)
BRACKETED_WHOLE = r"(?:\[[^\[\]]{1,200}\]|［[^［］]{1,200}］|【[^【】]{1,200}】|<[^<>]{1,200}>|\{[^{}]{1,200}\})\W*"


def no_placeholders():
    """No text left unfilled: markers, instructions to the writer, template variables, empty stand-ins."""

    def check(content):
        blocks = parse_report(content)
        for heading, body in _sections(blocks, bold=True):
            texts = [_html_text(b["text"]) if b["kind"] == "html" else b["text"] for b in body if b["kind"] != "code"]
            texts = [text for text in texts if text.strip()]
            if (
                texts
                and len(body) <= 3
                and all(b["kind"] in ("text", "item", "html") for b in body)
                and all(_is_stand_in(text, heading["level"]) for text in texts)
            ):
                return False, f'section "{_one_line(heading["text"])}" holds only {_one_line(texts[0])!r}'
        for target in (target for block in blocks for target in block["targets"]):
            if re.fullmatch(r"(?:INSERT|YOUR|ADD|TODO|TBD)(?:[_-]\w+)*", target):
                return False, f"a link to nowhere: {_one_line(target)!r}"
        prose = "\n".join(b["text"] for b in blocks if b["kind"] != "code").lower()
        shapes = {what: shape for what, shape in UNFILLED.items() if any(sign in prose for sign in shape[0])}
        if not shapes and "<!--" not in prose:
            return True, "no text left unfilled"
        for number, block in enumerate(blocks):
            text = block["text"]
            if block["kind"] == "code":
                continue
            if block["kind"] == "html" or "<!--" in text:
                for comment in re.findall(r"<!--(.*?)(?:-->|\Z)", text, re.DOTALL):
                    if _tells_the_writer(comment.strip()):
                        return False, f"a comment to the writer: {_one_line(comment)!r}"
                text = _html_text(text)
            text = _masked(text)
            # An instruction in brackets may be wrapped over lines; a marker is judged by its own line.
            folded = [" ".join(text.split("\n"))] if "\n" in text and "[" in text else []
            if block["kind"] == "cell" and re.fullmatch(r"\[[a-z][a-z ]{2,30}\]", text):
                return False, f"an unfilled bracket: {_one_line(text)!r}"
            for line in text.split("\n") + folded:
                found = _unfilled(line, block, shapes, blocks[number + 1] if number + 1 < len(blocks) else None)
                if found:
                    return False, f"{found[0]}: {_one_line(found[1])!r}"
        return True, "no text left unfilled"

    return _criterion("no_placeholders", check)


def _html_text(html):
    """Return the text of an HTML fragment, without comments, tags, their attributes, and code."""
    html = re.sub(r"<!--.*?(?:-->|\Z)", " ", html, flags=re.DOTALL)
    html = re.sub(r"(?is)<(pre|code|script|style|textarea|kbd|samp)\b.*?(?:</\1\s*>|\Z)", " `code` ", html)
    return re.sub(r"</?([A-Za-z][\w-]*)(?:\s[^<>]*)?>", lambda m: "\n" if m[1].lower() in HTML_TAGS or "=" in m[0] else m[0], html)


def _is_stand_in(text, level):
    """Tell whether a section's whole text only holds its place: an ellipsis, a promise or one bracketed instruction."""
    text = text.strip()
    if len(text) > 200:
        return False
    if re.fullmatch(ELLIPSIS, text) or re.fullmatch(PROMISE, text) or re.fullmatch(r"\[\s*(?:\.\.\.|…)\s*\]", text):
        return True
    if re.fullmatch(BRACKETED_WHOLE, text) and level != 1:  # below a title stand tags such as [Internal use only]
        # An instruction has words in any language; a tag, a citation, a number or a list is none.
        words = re.findall(r"[^\W\d_]{2,}", text)
        wordy = len(words) >= 2 or re.search(r"[\u3040-\u30ff\u4e00-\u9fff]{3}", text)
        return bool(wordy) and not re.search(r"[\"'=/`|]|\b\d{4}\b|et al", text)
    return bool(re.fullmatch(rf"(?i)[(（](?:(?:{WRITER_VERBS}) \w.*|.*(?:{WRITER_WORDS_ELSEWHERE}).*)[)）]\W*", text))


def _tells_the_writer(comment):
    """Tell an HTML comment that says what to write from a directive, a note or a mark of a tool."""
    order = rf"(?i)(?:\W{{0,6}}(?:note|instructions?|author|writer|optional)\b[^:]{{0,30}}:)?\W{{0,6}}(?:please )?{WRITER_VERBS} (?!(?:\w+ )?(?:start|end|toc|of|together|by)\b|[\w./-]+\.\w+\W*$)\w"
    return bool(
        re.match(order, comment)
        or re.match(rf"\W{{0,6}}{MARKERS}\b(?! (?:count|list|items?|comments?)\b)", comment)
        or re.match(
            r"(?i)\W{0,6}(?:your |\d+(?:-\d+)? (?:sentences|paragraphs|words|bullets)\b|this section (?:should|must|will)\b)", comment
        )
        or re.search(
            rf"(?i)\b(?:goes|add|insert) here\b|^placeholder\b(?! (?:image|attribute))|\bplaceholder (?:for|text)\b|(?:{WRITER_WORDS_ELSEWHERE})",
            comment[:400],
        )
    )


def _unfilled(line, block, shapes, following):
    """Return (what it is, the words) for the first unfilled piece of a line of prose, or None."""
    lower = line.lower()
    for what, (signs, pattern) in shapes.items():
        if any(sign in lower for sign in signs):
            for found in re.finditer(pattern, line):
                if not _is_subject(what, found, line, block, following):
                    return what, line[found.start() :]
    return None


def _is_subject(what, found, line, block, following):
    """Tell whether what looks unfilled is what the sentence, table or screen speaks about."""
    before, words = line[: found.start()], found[0].strip()
    if what == "text to be filled in":
        return bool(re.search(rf"(?i)\b{FILLABLE_THINGS}s?\b", before))
    if "bracket" in what and re.search(rf"(?i)\b(?:{SCREEN_WORDS})(?![\w-])", line):
        return True
    if "mark" in what or what in ("a value left open", "text to be written"):
        # The column of a board or of markers, a table's row about one, an abbreviation that is spelled out.
        if block["column"] == "header" or block["under"] and re.search(rf"(?i)\b(?:{MARKER_COLUMNS})s?\b", block["under"]):
            return True
        alone = re.fullmatch(rf"\W*{MARKERS}\W*", line)
        if (
            alone
            and block["column"] == 0
            and ("TBD" not in words or following and re.match(r"(?i)\W*to be|\W*t\w+[- ]b", following["text"]))
        ):
            return True
        if re.match(r"\W*TBD\W+to be", line) and block["lead"]:
            return True
        if alone and (block["kind"] == "heading" or block["lead"]) and following and re.search(MARKERS, following["text"]):
            return True
        if (
            words[:1] in "(["
            and "TBD" in words
            and re.search(r"(?i)\bt\w+[- ]b\w+[- ]d\w+\W{1,3}$", before)
            and not re.search(r"(?i)to be d\w+\W{1,3}$", before)
        ):
            return True  # trunk-based development (TBD)
        if re.match(r"(?i)\W*(?:if|when|whenever|where|while)\b", line) and not alone:
            return True
    quoted = before.count('"') % 2 or before.count("“") > before.count("”")
    return bool(quoted) and ("bracket" not in what or words[1:2].islower() or bool(re.search(rf"(?i)\b(?:{SPOKEN_ABOUT})\b", line)))


# ----------------------------------------------------------------------------------------------
# Criterion: a practical note or example
# ----------------------------------------------------------------------------------------------

# Programs whose name at the start of a line or code span makes it a command; the second kind are
# English words too and need an argument that looks like one.
COMMANDS = frozenset(
    """alembic ansible ansible-playbook apt apt-get aws az bash brew bundle cargo chmod chown cmake composer conda crontab curl dbt
    deno docker docker-compose dotnet dvc eslint ffmpeg flyctl gcloud gem gh git gradle grep helm helmfile heroku istioctl jq k6 k9s
    kubectl kustomize litellm locust minikube mkdir mlflow mongosh mvn mysql ng npm npx nvidia-smi ollama openssl pg_dump pip pip3
    pipx pnpm poetry promptfoo psql pulumi pytest python python3 rails redis-cli rsync ruff rustup scp sed semgrep spark-submit ssh
    sqlite3 sudo syft systemctl terraform tofu torchrun trivy tsc uv uvicorn uvx vercel vllm wget yarn""".split()
)
WORDY_COMMANDS = frozenset("cat cd cp echo export find go ip java kind ls make mv nginx node nohup ray rm sc tar touch vault wrk".split())
ALL_COMMANDS = COMMANDS | WORDY_COMMANDS
SUBCOMMANDS = (
    r"(?:add|apply|attach|autoscale|build|checkout|ci|clone|commit|compose|cordon|create|delete|deploy|describe|destroy|diff|drain|exec|explain|export|fetch|fmt|get|images|import|init"
    r"|inspect|install|list|lock|login|logs|merge|migrate|plan|port-forward|prune|ps|publish|pull|push|rebase|remove|restart|rm|rollback|rollout|run|scale|serve|set|show|start|stash|status|stop"
    r"|submit|sync|tag|template|test|top|uninstall|up|update|upgrade|validate|version)"
)
EXAMPLE_PHRASES = r"for example|for instance|as an example|by way of example|zum beispiel|beispielsweise|bspw\.|à titre d['’]exemple|z\. ?b\.|par exemple|p\. ?ex\.|por ejemplo|p\. ?ej\.|por exemplo|per esempio|ad esempio"
EXAMPLE_PHRASES_CJK = r"例えば|たとえば|例如|比如|譬如|举例来说|舉例來說|举个例子|舉個例子|以[^，。,]{1,15}[为為]例|具体例として"
EXAMPLE_LABELS = (
    r"e\.?g\.?|ex\.?|(?:(?!no\b|any\b)[\w-]+ ){0,2}?(?:examples?(?: (?:use|usage|code|config|configuration|implementation|scenario|command|workflow|query|prompt|calculation|case))?"
    r"(?: from [\w ]{1,30}| (?!of\b|for\b|is\b|was\b|are\b)[\w-]+)?|sample (?!sizes?|population|mean|frame|weight|period|count|rate|domain)[\w-]+)|(?:ein )?(?:beispiele?|praxisbeispiel)|(?:un )?exemples?|(?:un )?ejemplos?"
    r"|(?:um )?exemplos?|(?:un )?esemp(?:io|i)|示例|例子|举例|舉例|案例|範例|実例|具体例|使用例|例"
)
NOTE_LABELS = (
    r"(?:(?!no\b)[\w-]+ ){0,2}?implementation (?:notes?|tips?|guidance|guide|steps?|advice|checklist|hints?|example|sketch)|notes? on implementation"
    r"|(?:practical|practitioner|production|operational|deployment|usage|configuration|setup) (?:notes?|tips?|guidance|advice|steps?|checklist|hints?)|(?:pro |quick )?tips?|practical applications?|how to (?:apply|implement|use|do) (?:it|this)"
    r"|umsetzungshinweise?|praxishinweise?|praxistipps?|hinweise? zur umsetzung|implementierungshinweise?|notes? d['’]implémentation|notes? de mise en œuvre|mise en pratique"
    r"|conseils? pratiques?|notas? de implementación|consejos? prácticos?|notas? de implementação|dicas? práticas?|note (?:di|sull['’]) ?implementazione|consigl(?:io|i) pratic(?:o|i)"
    r"|实施说明|實施說明|实现说明|实施建议|实施要点|実装メモ|実装ノート|実装上の注意|実装のヒント"
)
# Titles of sections that tell how, where the steps are numbered or start with a verb.
HOW_TO_TITLES = (
    r"(?!how to read\b)(?:how to\b.*|.*\bhow-to\b.*|(?:basic |example )?usage(?: .+)?|implementation|(?:implementing|deploying|using|installing|configuring|setting up|running|building|migrating|enabling|creating)\b.+|(?:quick ?start|getting started|set-?up|installation)(?: .+)?"
    r"|.*\b(?:steps|procedure|playbook|runbook|checklist|step[ -]by[ -]step)\b.*|(?:implementation|practical|rollout|migration|action|deployment) (?:guide|plan|roadmap)|to [a-z]+ .+|umsetzung|mise en œuvre|implementación|implementação|implementazione|so geht['’]?s|wie (?:man|sie) .+|pasos .+|.*anleitung|vorgehen"
    r"|comment (?:\w+er|\w+ir|\w+re)\b.*|guide d['’]\w+|mode d['’]emploi|cómo .+|como (?:\w+ar|\w+er|\w+ir)\b.*|come \w+re\b.*|.*(?:如何|步骤|步驟|使用方法|使い方|手順|方法).*)"
)
STEP_VERBS = frozenset(
    """add adopt allow apply ask assign attach automate avoid back backfill begin block build cache call change check choose clean click clone close collect
    commit compare configure connect copy create cut define delete deploy disable document download drain drop enable encrypt enforce enter export fill
    follow gather generate give go group hold identify import increase insert inspect install invite join keep label launch leave limit link list load lock
    log look lower make map mark measure merge migrate monitor move name note open pair pick pilot pin place plan point prepare press promote provide
    publish pull push put quote raise read record reduce register remove rename replace report require reserve reset restart restore review roll rotate run save scale
    schedule select send separate set share ship show sign split start stop store submit switch sync tag take talk tell test track train trigger turn
    update upgrade upload use validate verify version wait warm watch wire wrap write""".split()
)
# A block with none of these in it holds no label and no "for example".
PRACTICAL_SIGNS = (
    "example|sample|instance|e.g|e. g|eg.|eg,|eg:|ex:|ex.:|note|tip|guid|step|detail|advice|checklist|hint|practic|sketch|applica|implement|how to|beispiel|bspw|z. b|z.b|hinweis|praxis"
    "|exemple|p. ex|p.ex|p. ej|p.ej|pratique|conseil|ejemplo|nota|consej|exemplo|dica|esemp|consigl|例|たとえば|比如|譬如|举|舉|说明|說明|建议|要点|メモ|ノート|注意|ヒント"
).split("|")
NO_CONTENT = (
    r"(?is)\W*(?:none(?: \w+){0,3}|none (?:is|are|was|were|exists?|appl(?:y|ies))\b.*|n/?a|not applicable|tbd|todo|tba|out of scope|omitted|unclear|nothing|not (?:available|part of|included|given|yet).{0,60}|(?:this|the) section is (?:left|empty).{0,60}|there (?:is|are) none.{0,40}|(?:no|there (?:is|are|were) no) \w+.{0,80}|see \w+|coming soon|\.{3}|…|-+"
    r"|.{0,60}\b(?:will be|to be|be) (?:added|shared|provided|published|written|completed)\b.{0,60}|to be \w+ed\b.{0,60}|pendientes?|por (?:completar|definir)|(?:noch )?offen|folgt(?: noch)?|à (?:compléter|venir|définir)|a (?:completar|definir)|da (?:completare|definire)|待定|待补充|待補充|未定|準備中|(?:is|are|was|were|will be|would be|has been|have been) .*)?\W*"
)
STATISTICS = r"(?i)(?:[a-z]|accuracy|precision|recall|auc|f1|rmse|mae|mape|r2|mean|median|mode|average|score|total|sum|roi|cost|growth|risk|loss|error|alpha|beta|p-?value|odds|ratio|high|low|medium)"
SQL = r"(?i)(?:select\b.+\bfrom|insert into|create (?:table|index|unique|materialized|role|user|extension)|alter table|drop (?:table|index|column)|delete from|update \w+ set|explain (?:analyze )?select|vacuum|grant \w+ on)\b"

GIVEN = r"(?=[\w`\"'“$<(#@])"
# "For example" gives one where it opens a sentence or stands between marks and something follows.
GIVES_EXAMPLE = (
    rf"(?i)(?:^|[.!?:;,(—–-]\s*|\n\s*|\b(?:and|or|but|so|use|with) )(?:{EXAMPLE_PHRASES})(?:\s*[,:;]?\s+){GIVEN}"
    rf"|\w (?:for example|for instance) (?:at|in|by|with|when|from|on|through|via|using|to)\b"
    rf"|,\s*(?:{EXAMPLE_PHRASES})\s*(?=[.)!]|$)|\((?:{EXAMPLE_PHRASES})\)"
    rf"|(?<![\"'“‘\w])(?:e\. ?g\.|eg\.|e\.g|\beg(?=[,:]))[,:]?\s*(?!(?:and|with|or|is|was|as)\b){GIVEN}|(?:{EXAMPLE_PHRASES_CJK})(?![\s」』\"”]*$)"
    r"|\b(?:an?|one|another|good|gutes|typical|common|classic|simple|concrete|real|recent|first|well-known|notable|famous|other|two|three|some) (?:\w+ )?(?:examples?|beispiel)(?: of (?:this|it|that))? (?:is|ist|was|are|were|comes? from)\b(?! (?:hard|rare|missing|difficult|not|needed|lacking|worth|absent|scarce))"
    r"|\bhere(?:'s| is| are) (?:an? |some )?(?:\w+ )?examples?\b|\b(?:following|give an) example:"
)
EXAMPLE_NOUNS = (
    r"(?:examples?|code|commands?|steps?|guidance|instructions?|details?|snippets?|samples?|tutorials?|walkthroughs?|how[- ]tos?)"
)
PROMISES_NONE = rf"(?i)\b(?:no|not any|without any|without|lacks?|lacking|omits?|omitted|neither|nothing|none|free of|devoid of|instead of)\b (?:[\w-]+ ){{0,2}}?{EXAMPLE_NOUNS}\b|(?:n['’]t|\bnot|\bnever) (?:\w+ ){{0,2}}?any(?:thing\b| (?:\w+ )?{EXAMPLE_NOUNS}\b)"
DENIED_AFTER = r"(?i)\b(?:is|are|was|were) (?:missing|absent|lacking|not (?:given|included|provided|shown|available))\b"
JUST_DENIED = (
    r"(?i)(?:\b(?:not|no|never|nor|without|neither|could have|should have|would have|might have|\w+n['’]t|cannot|avoid)\b"
    r"(?: (?:include|give|provide|offer|contain|show|list|have|been|included|given|shown|be|say|mention|explain|name|tell|specify|cover|describe|discuss|document|disclose|publish|print|supply|present))?|\bif [\w ]{0,20})\W*$"
)
# What a sentence wishes for, it does not give: "the report should contain, for example, code".
WISHED = r"(?i)\b(?:would be (?:useful|good|helpful|nice) to|want(?:s|ed)?|should (?:contain|include|have|add|offer)|(?:might|could) offer|miss(?:es|ing)?|lacks?)\b"
JUST_ASKED = (
    r"(?i)\b(?:phrases like|asked|asking|asks|ask|request(?:ed|s)?|phrases?|words?|expression|writ(?:e|ing)|wish(?:es|ed)?|looking)\W*$"
)


def has_impl_notes():
    """At least one practical note or example: code, a command, a labelled example or note, or how-to steps."""

    def check(content):
        blocks = parse_report(content)
        for block in blocks:
            if block["kind"] == "code" and block["text"].strip():
                return True, f"a code block: {_one_line(block['text'], 50)!r}"
            if block["kind"] == "html" and re.search(r"(?is)<(?:pre|code)\b[^>]*>\s*[^\s<]", block["text"]):
                return True, "a code block in HTML"
        prose = [(n, b) for n, b in enumerate(blocks) if b["kind"] not in ("code", "html", "meta")]
        lower = "\n".join(block["text"] for _, block in prose).lower()
        signs = [sign for sign in PRACTICAL_SIGNS if sign in lower]
        for number, block in prose:
            if found := _practical_words(block, blocks[number + 1 : number + 4], signs):
                return True, f"{found[0]}: {_one_line(found[1], 50)!r}"
        for title, body in _how_to_sections(blocks):
            if _has_steps(title, body):
                return True, f'steps under "{_one_line(title)}"'
        return False, "no code, command, labelled example or note, or how-to steps"

    return _criterion("has_impl_notes", check)


def _plain_title(block):
    title = " ".join(block["text"].replace("`", "").split()).lower()
    return _without_numbering(title).strip(" .:!?*")


def _how_to_sections(blocks):
    """Yield (title, body) of each section that tells how, with the subsections that belong to it."""
    for number, block in enumerate(blocks):
        bold = block["lead"] and block["lead"] == block["text"]
        opener = block["kind"] == "text" and block["text"].endswith(":") and len(block["text"]) < 90
        if (block["kind"] == "heading" or bold or opener) and re.fullmatch(rf"(?i){HOW_TO_TITLES}", _plain_title(block)):
            body = []
            for below in blocks[number + 1 :]:
                if below["kind"] == "heading" and below["level"] <= (block["level"] or 9):
                    break
                body.append(below)
            yield block["text"], body


def _has_steps(title, body):
    """Tell whether a body has steps: two numbered items, two that start with a verb, "Step 1" headings, or sentences in sequence."""
    items = [b for b in body if b["kind"] == "item" and re.search(r"\w{2}", b["text"])]
    orders = [
        b
        for b in [*items, *(b for b in body if b["kind"] == "heading")]
        if (re.match(r"[\W\d]*([A-Za-z]+)", b["text"]) or ["", ""])[1].lower() in STEP_VERBS
    ]
    steps = [b for b in body if re.match(r"(?i)\W*(?:step|schritt|étape|paso|passo|etapa) ?\d", b["text"])]
    numbered = [b for b in items if b["numbered"]] if not re.match(r"(?i)implement|set-?up", title) else []
    if len(orders) >= 2 or len(steps) >= 2 or len(numbered) >= 2:
        return True
    words = "\n".join(b["text"] for b in body if b["kind"] != "heading")
    sequence = re.findall(r"(?:^|[.!?]\s+|\n)(?:First|Then|Next|Finally|After that|Afterwards)\b", words)
    opening = re.findall(r"(?m)(?:^|[.!?] )([A-Z][a-z]+) ", words)
    told = re.match(r"(?i)\W*(?:[\d.]+ )?how[ -]to", title) and any(word.lower() in STEP_VERBS for word in opening)
    return len(sequence) >= 2 or bool(told)


def _practical_words(block, following, signs):
    """Return (what it is, the words) for the first practical note or example in a block of prose, or None.

    `signs` are those of PRACTICAL_SIGNS that the report has.
    """
    text = block["text"]
    for code in re.findall(r"`([^`]*)`", text) if "`" in text else ():
        if _is_command(code.strip()):
            return "a command or setting", code
    told = re.search(r"(?i)\b(?:run|set|add|use|execute|enter|type|issue|try)\s+`([^`\s]+ [^`]+)`", text) if "`" in text else None
    if told:
        return "a command or setting", told[1]
    typed = re.search(r"\b(?:[Rr]un|[Ee]xecute|[Tt]ype) ([a-z][\w.-]+) (\S+)", text)
    if typed and typed[1] in COMMANDS and re.match(rf"{SUBCOMMANDS}\b|\S*[./=-]", typed[2]):
        return "a command or setting", typed[0]
    if block["kind"] in ("text", "item"):
        for line in text.split("\n"):
            if _is_command_line(re.sub(r"(?i)^(?:run|command): ", "", line.replace("`", "").strip())):
                return "a command or setting", line
    if isinstance(block["column"], int) and re.search(
        r"(?i)\b(?:examples?|implementation notes?|beispiel|ejemplo|exemple)\b|示例|例", block["under"]
    ):
        return (f"under {block['under']!r}", text) if _says_something(text) else None
    lower = text.lower()
    if not any(sign in lower for sign in signs):
        return None
    masked = _masked(text)
    labelled = _label_and_content(block, masked, following)
    if labelled:
        return "a labelled example or note", labelled
    for sentence in re.split(r"(?<=[.!?。！？])(?<![\s(.]\w\.)(?<!\be[jx]\.)\s+(?=[A-Z\"“(])", masked):
        label = re.search(rf"(?i)(?:^|[.!?;—–(]\s*|\n\s*)(?:{EXAMPLE_LABELS}|{NOTE_LABELS})\s*[:：]\s*(?=\S)", sentence)
        if label and _says_something(sentence[label.end() :]):
            return "a labelled example or note", sentence[label.start() :].strip(" .;\n")
        for found in re.finditer(GIVES_EXAMPLE, sentence):
            before = re.split(rf"(?i){EXAMPLE_PHRASES}|{EXAMPLE_PHRASES_CJK}|e\. ?g|eg\.|\bexample", sentence[: found.end()])[0]
            bare = "," not in found[0] and "(" not in found[0] and not re.search(r"[,:;(—–]\s*$", before)
            denied = re.search(JUST_DENIED, before.rstrip(" ,;:(")) or bare and re.search(JUST_ASKED, before)
            after = sentence[found.end() :]
            wished = re.search(WISHED, before) and re.match(
                rf"(?i)\W*(?:an? |any |some |concrete )*(?:diagram|checklist|{EXAMPLE_NOUNS})\b", after
            )
            if wished or denied or re.search(PROMISES_NONE, before) or re.search(DENIED_AFTER, after) or re.search(r"[\"“‘']$", before):
                continue
            return "an example", sentence[found.start() :].strip(" .,;:(-–—\n")
    return None


def _label_and_content(block, masked, following):
    """Return a block's text where it opens with the label of an example or note, and something stands behind that label."""
    if block["kind"] == "heading":
        if not re.fullmatch(rf"(?i)(?:{EXAMPLE_LABELS}|{NOTE_LABELS})(?: (?:&|and) \w+)?(?: \d+)?(?:\s*[:：–-].*)?", _plain_title(block)):
            return None
        return block["text"] if _says_something(_below(block, following)) else None
    implementation = block["lead"].lower().strip(" :") == "implementation" and len(masked.split()) > 5
    if implementation:
        return block["text"]
    label = re.match(
        rf"(?i)^\W*(?:(?:\d+|[a-z])[.)]\s+)?(?:an? |the )?(?:{EXAMPLE_LABELS}|{NOTE_LABELS})(?![\w])(?: ?#?\d+| [A-Z]\b)?(?: \([^)]*\)| (?:for|of|in) [\w -]{{1,40}})?\s*",
        masked,
    )
    if not label:
        return None
    rest = masked[label.end() :]
    marked = re.match(r"[:：—–]|-\s", rest) or block["lead"] and abs(len(block["lead"]) - len(label[0].strip())) <= 2
    content = rest if re.search(r"\w", rest) else _below(block, following)
    return block["text"] if marked and _says_something(content) else None


def _below(block, following):
    """Return the text of the first block below a heading or label, if there is one before the heading that ends it."""
    for below in following:
        if below["kind"] == "heading" and below["level"] <= (block["level"] or 6):
            break
        text = _html_text(below["text"]) if below["kind"] == "html" else below["text"]
        if below["kind"] != "heading" and text.strip():
            return text
    return ""


def _says_something(text):
    return re.search(r"\w{2}", text) and not re.fullmatch(NO_CONTENT, text)


def _is_command(code):
    """Tell whether an inline code span is a command or a setting, and not merely a name, a number or a formula."""
    code = code[:200]
    key = re.match(r"(?P<key>\"?[A-Za-z_][\w.\[\]-]*\"?)(?P<sign>: | ?:= ?| ?= ?)(?P<value>[^\s=>].*)", code)
    if key and not re.fullmatch(STATISTICS, key["key"]) and not (" = " in code and re.search(r"\d*\.\d|%", key["value"])):
        return True
    return bool(
        _is_command_line(code)
        or re.match(r"[A-Za-z][\w.-]*(?= ).*(?: --?[A-Za-z]|\w=)", code)
        or code.split(" ")[0] in COMMANDS
        and re.match(rf"\S+ (?:{SUBCOMMANDS}\b|\S+ \S|(?![\d.]+$)\S*[./=:-])", code)
        or re.match(
            r"(?:\./|~/)[\w./-]+(?:$| )|\w+:\w+(?:[:\w]*) \S|(?:FROM|RUN|COPY|ENV|EXPOSE|CMD|ENTRYPOINT) \S|(?:GET|POST|PUT|PATCH|DELETE) /",
            code,
        )
        and not re.search(r"\.(?:md|txt)$", code)
        or re.match(SQL, code)
        or re.fullmatch(r"[a-z_]+ \S+(?: \S+)?;", code)
        or re.match(r"\w[\w.]*\([^)]*[\"'=,][^)]*\)", code)
        or re.match(r"[a-z][\w.-]*(?: [\w.:=-]+)* (?:~|\.{1,2})?/\w", code)
    )


def _is_command_line(line):
    """Tell whether a whole line is a command or a setting: `$ x`, `pip install x`, `KEY=value`, `a.b: 1`."""
    line = line[:400]
    first = line.removeprefix("sudo ").partition(" ")[0]
    if re.fullmatch(r"(?:[A-Z][a-z]+){2,} (?:yes|no|on|off|true|false|none|all|\d+\w?|/\S+)", line):  # as sshd_config has them
        return True
    if not ("=" in line or " -" in line or line[:2] in ("$ ", "> ") or ":" in first or line.endswith(";") or first in ALL_COMMANDS):
        return False
    prompt = re.match(r"[$>] (?=[a-z./])", line)
    if prompt and (line[2:].split(" ")[0] in ALL_COMMANDS or re.search(r" -|[/=|.]", line[2:])):
        return not _reads_as_prose(line[2:])
    if re.fullmatch(r"(?:export )?[A-Za-z_][\w.-]*=[^\s=].*", line) and len(line.split()) <= 6 and not re.match(rf"{STATISTICS}=", line):
        return True
    if re.fullmatch(r"[A-Za-z_]\w*[._]\w[\w.-]* = \S.*", line) and len(line.split()) <= 6:
        return True
    if re.fullmatch(r"(?:[a-z][\w.-]*|[A-Z]\w+-[A-Z]\w+)(?= ).* (?:--?[a-z]|-[A-Z]).*[^.:]", line) and not _reads_as_prose(line):
        return True
    first, _, rest = line.removeprefix("sudo ").partition(" ")
    argument = re.search(r"[/=~$]|[a-z]\.\w|^-|\s-", rest)
    if (
        rest
        and not _reads_as_prose(line)
        and (first in COMMANDS and (argument or re.match(rf"{SUBCOMMANDS}\b \S", rest)) or first in WORDY_COMMANDS and argument)
    ):
        return bool(re.fullmatch(r"[\w./:=@~$\"'{}<>\[\]%+,*|&;\\ -]*[\w/}\"'\]>*~]", rest))
    if re.fullmatch(r"[a-z]\w*(?:[._]\w[\w-]*)+: \S.{0,60}", line) and len(line.split()) <= 5:
        return True
    return bool(re.match(SQL, line) and line.endswith(";"))


def _reads_as_prose(line):
    """Tell "make sure that caches are warm" from "make test": commands have flags, paths, or few plain words."""
    words = line.split()
    plain = [w for w in words[1:] if re.fullmatch(r"[a-z]+", w)]
    articles = re.search(r" (?:the|a|an|is|are|that|your|and|of|sure|with|for|to|by) ", line)
    return len(plain) > 3 and not re.search(r"(?:^| )--?\w|[/=$|<>{]", line) or bool(articles) and not re.search(r" --?\w|[|$]", line)


# ----------------------------------------------------------------------------------------------
# Criterion: no word on where the report was saved
# ----------------------------------------------------------------------------------------------

DOCUMENT_SUFFIXES = r"\.(?:md|markdown|mdx|txt|html?|pdf|docx?|rst|adoc|odt)"
OWN_FILE = r"(?i)(?:.*[\\/])?eval-[a-z0-9][a-z0-9-]*\.md"  # as outputs are named
WEB_ADDRESS = (
    r"(?i)\b(?:https?|ftp|wss?|git|ssh)://[^\s>)]*|(?<![\w/.-])(?:[\w-]+\.)+(?:org|com|io|dev|net|gov|edu|ai|co|de|eu|uk)/[^\s>)`]*"
)
# A path in any style: file:, Windows, UNC, from a root, home, dot or variable, or a document's name.
PATH = (
    r"(?:(?:file|s3|gs|sandbox):/{0,2}/?[^\s`'\"<>|()]+|[A-Za-z]:[\\/][^\n`'\"<>|*?()]{0,200}?(?=[`'\"<>()]|[.,;]?(?:\s|$))|\\{1,2}[\w.$-]+\\[^\s`'\"<>|]+"
    r"|(?:~|\.{1,2}|\$\{?\w+\}?|%\w+%)[\\/][^\s`'\"<>|()，。；、]*|(?<![\w/:.<])/[\w.~+-]+(?:/[^\s`'\"<>|()，。；、]*)?"
    rf"|(?<![\w/:.-])[\w.-]+(?:[\\/][\w.-]+)*{DOCUMENT_SUFFIXES}\b)"
)
MOST_PATHS = 12  # looked at in one line; a line with more is a list of files

# In the rules below a path is a sign with its kind: an output's name, another document, or any path.
OWN, DOCUMENT, ANY = "§own", "§(?:own|doc)", r"§\w+"
REPORT = r"(?:report|document|write-?up|analysis|evaluation|research|findings|article|paper|memo|briefing|brief|study|assessment|deliverable|comparison)s?"
THIS_REPORT = rf"(?:a |the )?(?:copy of )?(?:this|the (?:above|present)) (?:[\w-]+ ){{0,2}}?{REPORT}(?: itself)?"
WHOLE_REPORT = rf"(?:{THIS_REPORT}|(?:the |a |your |my )?(?:(?:full|complete|completed|final|finished|detailed|entire|whole|markdown|research|requested|generated) ){{0,2}}{REPORT}(?: itself)?)"
AUXILIARY = r"(?:(?:has|have|was|were|is|are|will|can|may|should|been|be|being|also|already|successfully|automatically|now|safely) ){0,4}"
SAVED = (
    r"(?:saved|stored|written|exported|placed|located|available|found|generated|created|persisted|delivered|output|filed|archived|kept"
    r"|lives|resides|sits|put|published|recorded|uploaded|accessed|viewed|committed|documented|at|in|under|lies)"
)
TO = (
    r"(?:(?:to|at|in|as|under|into|within|on|inside|here|via|out|locally|directly|successfully|it|by the name) ){0,3}"
    r"(?:(?:the|a|your|my|following|output|markdown|target|local|project|file|path|folder|directory|location|disk|called|named|name|as|of|under) ){0,5}:? ?"
)
# (where it counts: "edge" is the first and last three blocks of a report; the shape)
SAYS_WHERE = (
    ("anywhere", rf"\b{THIS_REPORT} {AUXILIARY}{SAVED} {TO}{ANY}"),
    (
        "anywhere",
        rf"\b(?:I|we)(?: have|'ve)? (?:now |also |just |successfully )?(?:saved|stored|written|wrote|exported|placed|put|uploaded|created) {THIS_REPORT} {TO}{ANY}",
    ),
    ("anywhere", rf"\b(?:find|access|read|view|open|see|download) {THIS_REPORT} {TO}{ANY}"),
    (
        "anywhere",
        rf"^\W*(?:I|we)(?: have|'ve)? (?:now |also |just |successfully )?(?:saved|stored|written|wrote|exported|placed|put|uploaded|created) (?:{WHOLE_REPORT}|everything|it|this|all findings|the results) {TO}{OWN}",
    ),
    ("anywhere", rf"^\W*(?:{WHOLE_REPORT}|it|this file|this) {AUXILIARY}{SAVED} {TO}{OWN}"),
    ("anywhere", rf"^\W*(?:(?:{WHOLE_REPORT}|output|file|results) )?(?:successfully )?(?:saved|written|exported) {TO}{OWN}"),
    (
        "edge",
        rf"\b(?:I|we)(?: have|'ve| will|'ll)? (?:now |also |just |successfully )?(?:saved|save|stored|written|write|wrote|exported|placed|put|uploaded|created) (?:{WHOLE_REPORT}|everything|it|this) {TO}{DOCUMENT}",
    ),
    ("edge", rf"\b(?:find|access|read|view|open|see|download) {WHOLE_REPORT} (?:[\w-]+ ){{0,2}}?{TO}{DOCUMENT}"),
    ("edge", rf"^\W*(?:{WHOLE_REPORT}|the above|everything|this (?:file|output|content|text)) {AUXILIARY}{SAVED} {TO}{DOCUMENT}"),
    (
        "edge",
        rf"^\W*(?:{WHOLE_REPORT}|output|file|results) (?:has been |have been |was |were )?(?:successfully )?(?:saved|written|exported|stored|filed) {TO}{ANY}",
    ),
    ("edge", rf"^\W*(?:successfully |now )?(?:saved|saving|written|exported|stored|output|delivered)(?: {WHOLE_REPORT})? {TO}{DOCUMENT}"),
)
# A short sentence at the edge that names an output and one of these speaks of its own file.
OWN_FILE_WORDS = rf"(?i)\b(?:{REPORT}|saved|saving|wrote|written|everything|file|location|bericht|rapport|informe|relatório|rapporto|gespeichert|guardad[oa]|salv[oa]|salvat[oa]|enregistrée?)\b|报告|報告|レポート|保存|文件|路径"
OTHER_FILE_WORDS = r"(?i)\b(?:not|never|no such|earlier|previous|prior|another|other|last|old|claim(?:s|ed)?|compare[ds]?|see also|unlike|golden|prompt|template|convention|cases?)\b"
# A label made of these words alone, before nothing but a path, states the report's file.
LABEL_WORDS = (
    r"(?:this|the|full|complete|final|report|document|doc|file|filename|file ?name|name|path|location|saved?|stored|written|exported|output|result|results|research|evaluation"
    r"|analysis|art[ei]facts?|created|wrote|local|do|deliverable|storage|destination|to|as|at|in|under|of|for|on|disk|local|markdown|md|generated|is|available|write-?up|copy"
    r"|bericht|datei|dateiname|speicherort|pfad|gespeichert|unter|fichier|emplacement|chemin|rapport|du|enregistré|dans|archivo|ubicación|ruta|informe|guardado|en|del"
    r"|arquivo|caminho|relatório|salvo|em|percorso|salvato|rapporto|saved_to|output_file|report_path|ablageort|dieses|berichts|ausgabedatei|fichero|sortie|uscita|saída|salida|nome|报告|文件|路径|位置|保存|保存位置|保存先|报告位置|文件路径|文件位置|報告|報告書|ファイル|ファイルパス|パス|レポート)"
)
SAVED_ELSEWHERE = r"gespeichert|abgelegt|enregistrée?|sauvegardée?|guardad[oa]|guardó|salv[oa]|gravad[oa]|salvat[oa]|保存|存储|儲存|存放"
THIS_ELSEWHERE = (
    r"(?:(?:dieser|der|vollständiger|der vollständige) )?bericht|diese datei|(?:ce|le) (?:rapport|document)(?: complet)?|(?:(?:este|el) )?(?:informe|documento)(?: completo)?"
    r"|(?:(?:este|o) )?relatório(?: completo)?|(?:questo|il) (?:rapporto|documento|report)|(?:本|此|这份|完整)?(?:报告|報告)書?|本レポート|このレポート|この報告書?|レポート"
)
LINKS_ELSEWHERE = (
    r"(?:wurde|ist|liegt|nun|unter|im|in|als|a|été|est|se|trouve|disponible|dans|sous|comme|ha|sido|fue|quedó|está|guardado|encuentra|en|como|foi|é|em|è|stato|nel|un[ao]?"
    r"|已经?|被|将|は|を|が|に|も)"
)
# The report, words that link, and then the path and the verb in either order.
SAYS_WHERE_ELSEWHERE = rf"(?i)^\W*(?:{THIS_ELSEWHERE})(?:\W*{LINKS_ELSEWHERE}){{0,6}}\W*(?:(?:{SAVED_ELSEWHERE})\w*(?:\W*(?:{LINKS_ELSEWHERE}|到|在|于|至|为)){{0,3}}\W*)?{DOCUMENT}"


def no_file_path_refs():
    """The report does not say where it itself was saved."""

    def check(content):
        blocks = parse_report(content)
        for number, block in enumerate(blocks):
            text = block["full"]
            if block["kind"] == "code":
                # "The report has been saved to:" and its path in a code block of one line are one sentence.
                before = blocks[number - 1]["full"] if number else ""
                if "\n" in text.strip() or not before.rstrip().endswith((":", "：")):
                    continue
                text = f"{before.splitlines()[-1]} {text.strip()}"
            if "/" in text:
                text = re.sub(WEB_ADDRESS, " ", text)
            if "/" not in text and "\\" not in text and not re.search(DOCUMENT_SUFFIXES, text, re.IGNORECASE):
                continue
            if block["kind"] == "html":
                text = re.sub(r"<!--|-->|</?(?:div|p|code|em|i|b|strong|br|small|sub)\b[^>]*>", "\n", text)
            elif isinstance(block["column"], int) and block["column"]:
                text = f"{blocks[number - 1]['full']}: {text}"
            edge = number < 3 or number >= len(blocks) - 3
            for line in text.split("\n"):
                if _names_own_file(line, block, edge):
                    return False, f"says where it was saved: {_one_line(line, 100)!r}"
        return True, "no word on where the report was saved"

    return _criterion("no_file_path_refs", check)


def _names_own_file(line, block, edge):
    """Tell whether a line of a report says where that report was saved."""
    marked, kinds = _with_path_signs(line)
    if not kinds:
        return False
    plain = " ".join(re.sub(r"[`*_<>]+", " ", marked.replace("’", "'")).split())
    if "own" in kinds and (block["level"] == 1 or edge and re.fullmatch(r"\W*(?:§own\W*)+", plain)):
        return True
    if block["level"] == 1 and re.search(r"\(§(?:doc|own)\)", plain):
        return True
    cell = isinstance(block["column"], int)
    for field in re.split(r"\s[|•·]\s|(?<=[.!?。！？])\s*(?=\S)", plain):
        if "§" not in field or _is_quoted(field):
            continue
        if (edge or "§own" in field or re.match(r"(?i)\W*this report\b", field)) and _is_location_label(field, cell, edge):
            return True
        routine = re.search(r"(?i)^\W*by default|\b(?:every|each|nightly|hourly|by the \w+ job)\b", field)
        shapes = [shape for where, shape in SAYS_WHERE if edge or where == "anywhere"]
        if not routine and any(re.search(shape, field, re.IGNORECASE) for shape in shapes):
            return True
        if re.search(SAYS_WHERE_ELSEWHERE, field) or edge and re.match(rf"(?i)\W*(?:{SAVED_ELSEWHERE})\b.{{0,20}}{DOCUMENT}", field):
            return True
        short = edge and "§own" in field and len(field.split()) <= 20 and not cell
        if short and re.search(OWN_FILE_WORDS, field) and not re.search(OTHER_FILE_WORDS, field):
            return True
    return False


def _with_path_signs(line):
    """Return (the line with a sign for each path, the kinds of path in it)."""
    kinds: list = []

    def sign(found):
        path = found[0].rstrip(".,;:)")
        own, document = re.fullmatch(OWN_FILE, path), re.search(rf"(?i){DOCUMENT_SUFFIXES}$", path)
        # README.md, AGENTS.md and their like are files of a project.
        kinds.append("own" if own else "doc" if document and not re.search(r"(?:^|[\\/])[A-Z_]+\.\w+$", path) else "any")
        return f"§{kinds[-1]}{found[0][len(path) :]}" if len(kinds) <= MOST_PATHS else "…"

    marked = re.sub(PATH, sign, line, flags=re.IGNORECASE)
    return (marked, kinds) if len(kinds) <= MOST_PATHS else (line, [])


def _is_quoted(field):
    """Tell whether the first path of a sentence stands in somebody's quoted words."""
    before = field[: field.index("§")]
    for left, right in (('"', '"'), ("“", "”"), ("‘", "’"), ("「", "」")):
        opened = before.count(left) % 2 if left == right else before.count(left) > before.count(right)
        if opened and re.search(r"\w", before[before.rfind(left) :]):
            return True
    return False


def _is_location_label(field, cell, edge):
    """Tell whether a field is a label and a path alone: "File: x.md", "Report location: docs/"."""
    if len(field) > 200:
        return False
    found = re.fullmatch(r"\W*(?P<label>[\w' -]{1,40}?)\W{1,4}§(?P<kind>own|doc|any)[^\w§]*(?:§\w+\W*)?", field)
    if not found or not re.search(r"[:：=→>-]\W*§|\b(?:to|as|at|in)\W+§", field):
        return False
    label = found["label"].lower()
    if not re.fullmatch(rf"{LABEL_WORDS}(?:[ -]?{LABEL_WORDS})*", label):
        return False
    own_label = re.search(r"report|document|evaluation|write|saved?\b|stored|bericht|rapport|informe|relatório|报告|報告|レポート", label)
    if cell or found["kind"] == "own":
        # Inside a report a bare "File:" may speak of another one.
        return found["kind"] == "own" and bool(edge or own_label or re.match("output", label)) or label.startswith("this report")
    if found["kind"] == "doc":
        return bool(own_label or not re.fullmatch(r"outputs?|results?", label))
    return bool(own_label and re.search(r"location|path|saved|stored|file|speicherort|emplacement|ubicación|位置|路径|パス|保存", label))


# The registry: a spec's "type" to its factory; the spec's other keys are the factory's arguments.
CRITERIA: dict = {
    "exact_sections": exact_sections,
    "min_sections": min_sections,
    "min_bytes": min_bytes,
    "min_lines": min_lines,
    "no_placeholders": no_placeholders,
    "has_impl_notes": has_impl_notes,
    "no_file_path_refs": no_file_path_refs,
}


# ----------------------------------------------------------------------------------------------
# Deriving criteria from a task's text
# ----------------------------------------------------------------------------------------------

SMALL_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
NUMBER = (
    r"(?:half[- ]a[- ]dozen|(?:a )?half[- ]dozen|(?:a|one|two|three|four) dozen|dozen|\d+"
    rf"|(?:{'|'.join(TENS)})(?:[- ](?:{'|'.join(SMALL_NUMBERS[1:10])}))?|{'|'.join(reversed(SMALL_NUMBERS[1:]))})"
)
EXACT_COUNTS = range(2, 8)  # numbers of items that a report gives a section each
LARGEST_COUNT = 200  # a larger number is a year, a size or a name, never a number of sections

RANKING = "top|best|worst|leading|main|key|major|biggest|largest|greatest|strongest|hottest|foremost|primary|most important|most common"
SUPERLATIVE = r"(?:most|least|best|worst|top|leading|main|key|major|biggest|largest|greatest|foremost|(?!(?:inter|for|qu|t|w|r|b|n|p|g|d|arr|harv|requ|man|cont|prot|inv)est\b)[a-z]{2,}est)"
REQUEST_VERBS = (
    r"(?:analy[sz]e|answer(?:s|ing)?|ask for|assemble|assess|bring|benchmark|break down|build|catalog(?:ue)?|choose|collect|compar(?:e|es|ing)|compile|contrast|cover(?:s|ing)?|digest|hunt down|(?:I['’]m|I am) after|vet(?:s|ted|ting)?"
    r"|come up with|create|critique|curate|deliver|dig (?:up|into|out)|describ(?:e|es|ing)|detail(?:ing)?|discuss(?:ing)?|dissect|document(?:ing)?|draft|enumerate|evaluat(?:e|es|ing)|examin(?:e|es|ing)"
    r"|explain(?:s|ing)?|explor(?:e|es|ing)|find|focus(?:es|ing)? on|gather|generate|give|help (?:me|us) (?:understand|learn|choose|compare|see)|highlight(?:s|ing)?|identif(?:y|ies|ying)|illustrate|inspect|investigat(?:e|es|ing)|know about|learn(?: about)?|list(?:s|ing)?|locate"
    r"|look(?:ing)? (?:at|into|up|for)|make|map(?: out)?|name|need|offer|outlin(?:e|es|ing)|pick|prepare|present(?:s|ing)?|prioriti[sz]e|produce|profil(?:e|es|ing)|propose|provide|pull together|put (?:together|forward)|supply|talk (?:me|us) through|test(?:-drive)?|try|walk(?: (?:me|us|[\w ]{1,30}?))? through"
    r"|rank(?:s|ing)?|recommend|report(?: on)?|research|return|review(?:s|ing)?|score|search (?:the web |online )?for|select|send|share|shortlist|show|sketch|source|spot|stud(?:y|ies|ying)"
    r"|suggest|summari[sz](?:e|es|ing)|survey|tabulate|tell|track down|uncover|want|weigh|write(?: up| about)?|are|were)"
)
LIST_NOUNS = (
    r"(?:lists?|checklist|set|sets|comparison|overview|selection|round-?up|roundup|total|collection|catalog(?:ue)?|summary|analysis|survey|review"
    r"|shortlist|rundown|report|breakdown|ranking|evaluation|profiles?|descriptions?|explanations?|examples?|inventory|series|sample|index|digest|deep dive|study|examination|table|assessment|bibliography|briefing|dossier|matrix|memo|primer|write-?up)"
)
BETWEEN_VERB_AND_NUMBER = r"(?:me|us|up|on|out|about|into|exactly|precisely|just|only|all|the|these|those|my|our|your|what|which|for|at|and|a|full|total|of|together|in|detail|at least one of|how)"
# A number before one of these measures something.
UNITS = (
    r"(?:(?:consecutive|full|whole|straight|working|business|calendar|fiscal|academic|printed|short|long|more) )?"
    r"(?:years?|months?|weeks?|days?|hours?|minutes?|seconds?|decades?|centur(?:y|ies)|quarters?|sprints?|nights?|mornings?|weekends?|fortnights?|semesters?"
    r"|pages?|words?|paragraphs?|sentences?|characters?|lines?|tokens?|slides?|bullets?|percent|per ?cent|pct|percentage|bps|basis"
    r"|[kmgtp]i?b|gigabytes?|megabytes?|terabytes?|kilobytes?|bytes?|bits?|gbps|mbps|[mnu]s|msec|hz|[mg]hz|watts?|kw|mw|kwh|volts?|amps?|cores?|vcpus?"
    r"|km|kilometers?|kilometres?|met(?:er|re)s?|miles?|feet|foot|ft|inch(?:es)?|cm|mm|kg|kilos?|grams?|pounds?|lbs?|tons?|tonnes?|lit(?:er|re)s?|gallons?|ounces?|acres?|hectares?|sq|square"
    r"|degrees?|dollars?|euros?|cents?|usd|eur|gbp|yen|bucks|million|billion|trillion|thousand|hundred|grand|[km]|bn|am|pm|o'clock|times|fold|x)"
)
# "A ten-item reading list": the hyphenated noun is the thing that is counted.
COUNTED_HYPHENS = (
    r"-(?:item|point|step|question|entry|tip|section|recipe|option|idea|stop) (?:[\w-]+ ){0,2}?(?:list|checklist|guide|plan|roadmap"
    r"|playbook|itinerary|questionnaire|quiz|survey|faq|agenda|shortlist|digest|summary|brief|report|tutorial|walkthrough|rubric|outline|syllabus|glossary|script|primer|template|assessment)\b"
)
METRICS = r"\s+(?:error|accuracy|recall|precision|hit|score|metric|prediction|percentile)"
APPROXIMATE = (
    r"(?:at least|at most|more than|less than|fewer than|over|under|up to|no more than|no less than|no fewer than|not more than|minimum of|maximum of|minimum|maximum|min|max"
    r"|above|below|(?<!write )(?<!report )(?<!learn )(?<!brief )(?<!know )(?<!me )(?<!us )(?<!talk )about|around|roughly|approximately|approx\.?|some|nearly|almost|circa|ca\.|exceeding|beyond|as many as|upwards of|in excess of|close to|or|to|and up to|maybe|perhaps|possibly|~|≈|>=?|<=?|≥|≤|the other|another)"
)
OPEN_ENDED = "or more|or so|or fewer|or less|plus|odd|at most|at least|max|maximum|minimum|and up|and above|ish"
# Words before a number that make it part of a name, in lower case too.
NAMING = (
    r"(?:python|java|node|react|angular|vue|postgres|postgresql|mysql|ubuntu|debian|windows|ios|android|macos|gpt|llama|claude|gemini|mistral|qwen|phi|type|section"
    r"|chapter|phase|level|tier|version|ver\.?|v|step|stage|part|volume|series|web|industry|class|category|grade|layer|rule|article|title|episode|season|day|week|month|year|q"
    r"|figure|table|appendix|generation|gen|sprint|release|line|page|port|route|area|zone|scope|basel|iso|soc|covid|http|ipv|oauth|tls|usb|wifi|pci|catch|formula|terminal|gate|room|route|highway|interstate|apollo|option|paragraph|clause|no\.?|number|#)"
)
TOOL_VERBS = r"(?:us(?:e|es|ing)|consult(?:ing)?|read(?:ing)?|cit(?:e|es|ing)|interview(?:ing)?|via|query(?:ing)?|search(?:ing)?|check(?:ing)?|ask(?:ing)?|spend(?:ing)?|based on|drawing on)"
PART_OF_EACH = r"[^,.;]*\b(?:each|per|apiece)\b"  # "and 2 examples for each"
# "Pick six and review them", "evaluate 7", "compare these three: ...": the things were named before.
STANDS_ALONE = r"(?i)(?: of (?:them|these|those|its|the)\b| and [\w ]{1,40}\b(?:them|each|it)\b|[.;:]|$| please\b)"
NO_ORDER = (
    r"(?:Use|Using|Consult|Read|Cite|Interview|Query|Search|Check|Ask|Spend|Within|After|Before|For|In|Over|With|At|Since|Per|Under|Between"
    r"|About|Some|Every|Our|My|The|These|Those|Across|By|From|On|Of|To|Until|During|Given|If|When|While|As|Once|Through|Only|Last|Next|Past|First|One|Big|Have|Let|Get|Do|Does|Did|Can|Could|Is|Are|Would|Will|Should|How|Why|Where|Who)"
)
MEMBERSHIP = r"(?:(?<!look )(?<!dig )(?<!delve )into|from|enter(?:s|ed|ing)?|join(?:s|ed|ing)?|reach(?:es|ed|ing)?|crack(?:s|ed|ing)?|made|makes?|break(?:s|ing)? into|broke into|in|among|amongst|within|outside|one of|part of|rank(?:s|ed|ing)? (?:in|among)|stay(?:s|ed)?|remain(?:s|ed)?|left|leave|leaving|out of|inside|hit(?:s|ting)?)"


def _extract_count(task_text):
    """Return the exact number of items that a task asks for, or None; an unsure number is None."""
    found = _find_count(task_text)
    return found[0] if found else None


@functools.lru_cache(maxsize=1024)
def _find_count(task_text):
    """Return (the number of items asked for, the words that say so), or None.

    Every number in the text is judged by its neighbours, and a number that measures, names, ranks or
    bounds something is passed over. Of what is left, "each of the 5" decides; then "top 5" and
    "5 most"; then a number of things after a verb that asks for them. Two that disagree give None.
    """
    text = _without_files(unicodedata.normalize("NFKC", task_text))
    text = re.sub(r"(?i)(?<=[a-z]) \(\d+\)(?= [a-z])", "", text)  # five (5) tools
    numbers = [m for m in re.finditer(rf"(?i)(?<![\w.,$€£¥#/@])(?<!\d[-–]){NUMBER}(?![\w%+/]|[.,:]\d|°)", text)]
    ranked: list = []
    plain: list = []
    for match in numbers:
        kind = _judge(text, match)
        if kind == "each":
            return _number(match[0]), _phrase(text, match)
        if kind:
            (ranked if kind == "ranked" else plain).append(match)
    for group in (ranked, plain):
        values = {_number(m[0]) for m in group}
        if len(values) == 1 and not (group is plain and len(group) > 1) and not _has_a_rival(text, group[-1], numbers):
            return values.pop(), _phrase(text, group[0])
        if group:
            return None
    return None


def _has_a_rival(text, match, numbers):
    """Tell whether a count is joined to a number of other things: "4 databases and 2 rerankers"."""
    following = next((m for m in numbers if m.start() > match.end()), None)
    if not following or not re.fullmatch(
        r"(?i)[^.;:!?]*(?:\band|\bplus|\bthen|\bas well as|\b(?:along|together) with|&)(?: the| another)? ",
        text[match.end() : following.start()],
    ):
        return False
    right = text[following.end() :]
    return _names_things(right) and not re.match(rf"(?i)\s+{UNITS}\b(?!-)|{PART_OF_EACH}", right)


def _without_files(text):
    """Cut the order to save, and every file name and path, from a task."""
    order = r"(?:and |then )*(?:save|store|export|write|put|output)(?: (?:it|them|this|that|the (?:results?|report|findings|output)|your (?:report|findings)|everything))?(?: (?:to|as|in|into|under|at))?"
    text = re.sub(rf"(?i)[,;]?\s*\b{order} [`\"'“]?\S*\.(?:md|markdown|txt|html|pdf|docx?)\b[`\"'”]?", " ", text)
    text = re.sub(r"\S*[\\/~]\S*[\\/]\S*|\S+\.(?:md|markdown|txt|html|pdf|docx?|csv|json|ya?ml)\b", "", text)
    return " ".join(text.split())


def _number(words):
    """Return the value of a number in digits or words."""
    words = words.lower().replace("-", " ")
    if words.isdigit():
        return int(words)
    if "dozen" in words:
        first = words.split()[0]
        return 6 if "half" in words else 12 * (SMALL_NUMBERS.index(first) if first in SMALL_NUMBERS else 1)
    parts = words.split()
    values = [(TENS.index(p) + 2) * 10 if p in TENS else SMALL_NUMBERS.index(p) for p in parts]
    return sum(values)


def _phrase(text, match):
    """Return the number with the words around it that made it a count, for the task's `count_from`."""
    before = re.search(rf"(?i)(?:(?:each of )?(?:the )?(?:{RANKING})|each of(?: the| these| our)?)[ -]$", text[: match.start()])
    after = re.match(rf"(?i){COUNTED_HYPHENS}|(?: (?:{SUPERLATIVE})(?: [\w-]+)?| [\w-]+)?", text[match.end() :])
    ranked = before and not before[0].lower().startswith("each")
    words = (before[0] if before else "") + match[0] + ("" if ranked or not after else after[0])
    return re.sub(r"^the ", "", words.strip(), flags=re.IGNORECASE)


def _judge(text, match):
    """Judge one number of a task by its neighbours: "each", "ranked" or "plain" for a count of items, else None."""
    words, left, right = match[0], text[: match.start()], text[match.end() :]
    value = _number(words)
    ranking = re.search(rf"(?i)\b(?:{RANKING})[ -]$", left)
    counted_hyphen = not ranking and re.match(rf"(?i){COUNTED_HYPHENS}", right)
    previous = (re.search(r"([\w'’.+#-]+)[ -]$", left) or ["", ""])[1]
    if not (2 if words.isalpha() else 1) <= value <= LARGEST_COUNT:
        return None
    if re.match(r"[-‐‑–—]\w", right) and not counted_hyphen or re.search(r"\w[-‐‑]$", left) and not ranking:
        return None
    if re.match(rf"(?i)\s*(?:-|–|—|to|or|through|~)\s*{NUMBER}\b|\s+(?:{OPEN_ENDED})\b|-ish", right):
        return None
    if re.search(rf"(?i)(?:^|[\s(]){APPROXIMATE}\s*(?:a |the |of )?$|\bbetween (?:{NUMBER} and )?$", left):
        return None
    if re.match(rf"(?i)\s*[%$€]|\s+{UNITS}\b(?!-)|{METRICS}", right):
        return None
    if re.fullmatch(rf"(?i){NAMING}", previous) or _is_name(left, previous, words, right, bool(ranking)):
        return None
    if re.search(
        rf"(?i)\b{MEMBERSHIP} (?:(?:the )?(?:[\w'’.-]+ ){{0,3}}?(?:{RANKING})[ -]|the )$|\b(?:by|at) the (?:(?:{RANKING}) )?$", left
    ):
        return None
    if re.search(rf"(?i)\b(?:each|every one) of (?:the |these |those |our |my |your )?(?:{RANKING})? ?$", left):
        return "each"
    if re.search(rf"(?i)\b{TOOL_VERBS} (?:the |my |our )?(?:(?:{RANKING}) )?$", left):
        return None
    if re.search(rf"(?i)(?<=\S )(?<!please )(?:with|give|and|list|include|including|plus) (?:(?:{RANKING}) )?$", left) and re.match(
        rf"(?i){PART_OF_EACH}", right
    ):
        return None
    if ranking:
        return "ranked" if _is_ranked_list(left[: ranking.start()], ranking[0], right) else None
    if re.match(rf"(?i)\s+{SUPERLATIVE}\b", right):
        return "ranked" if _names_things(right) else None
    bracketed = (
        re.search(r"(?i)\((?:exactly|just|only|precisely) $", left)
        or left.endswith("(")
        and re.match(r"(?i)(?: of them| only| in all|, no more|, please| (?:picks|items|entries|examples|options)\))", right)
    )
    if counted_hyphen or bracketed or re.match(r"(?i)\s+(?:in total|total|altogether)\b", right):
        return "ranked"
    if re.search(r"(?i)\b(?:for (?:each|every)|each (?:with|having))\b[^.;!?]*$", left):
        return None
    verb = rf"\b(?:{REQUEST_VERBS}|which|what) (?:{BETWEEN_VERB_AND_NUMBER} )*$"
    if re.search(
        rf"(?i){verb}|\b(?:exactly|{LIST_NOUNS} of|(?:briefing|deep dive|memo|primer|write-?up) (?:on|into|about)) (?:the )?$|(?:^|[.!?:;,(]\s+)(?:(?:exactly|just|only) )?$",
        left,
    ):
        named_before = re.search(rf"(?i){verb}", left) and re.match(STANDS_ALONE, right)
        return "plain" if _names_things(right) or named_before else None
    # Any word that opens a sentence may be the verb of an order: "Supply twelve icebreakers".
    order = re.fullmatch(r"(?:.*[.!?:;] )?([A-Z][a-z]+(?:-[a-z]+)?) ", left)
    return "plain" if order and words.isalpha() and not re.fullmatch(NO_ORDER, order[1]) and _names_things(right) else None


def _is_ranked_list(left, ranking, right):
    """Tell "the top 5 tools" and "a top-5 list" from "a top-5 city" and "why do top 3 results win"."""
    if re.search(r"(?i)\b(?:do|does|did|why|is|can|will|should|that|when|how) $", left):
        return False
    article = re.search(r"(?i)\ban? $", left)
    is_list = re.match(r"(?i)\s+(?:[\w-]+ ){0,2}?(?:list|of|ranking|round-?up|guide|comparison|rundown|overview|shortlist)\b", right)
    return bool(is_list or not article and (not ranking.endswith("-") or _names_things(right)))


def _is_name(left, previous, words, right, ranking):
    """Tell whether a number belongs to a proper name: PostgreSQL 17, OWASP Top 10, the Big Four."""
    if ranking:
        found = re.search(r"(?:([\w'’&.-]+)\s+)?(\w+)[ -]$", left)
        holder, rank = (found[1] or "", found[2]) if found else ("", "")
        if not rank[:1].isupper() or not holder:
            return False
        # "the Top Twelve lures" is written large; "Top 40 radio" and "OWASP Top 10" are names.
        return (
            holder[:1].isupper()
            and not re.fullmatch(rf"(?i){REQUEST_VERBS}|the|{BETWEEN_VERB_AND_NUMBER}", holder)
            or bool(re.fullmatch(r"(?i)do|does|did|of|on|for|in|to|by|with|why|how|are|is|against|from|and", holder))
        )
    title_case = not re.search(r"\b[a-z]{5,}", left + right)
    if words[:1].isupper() and words.isalpha() and re.match(r" [A-Z]", right) and left and not title_case:
        return True  # the Five Eyes
    first = not left[: len(left) - len(previous) - 1].strip(" \"'“(") or bool(re.search(r"[.!?:;]\s+\S+[ -]$", left))
    if not previous[:1].isupper() or re.fullmatch(
        rf"(?i){REQUEST_VERBS}|the|{BETWEEN_VERB_AND_NUMBER}|top|best|which|what|these", previous
    ):
        return False
    return not first or not re.fullmatch(r"(?i)[a-z]+(?:e|y|n|k|t|d|w|h|p|m|l|r|g|s)", previous) or words.isdigit()


def _names_things(right):
    """Tell whether the words after a number name more than one thing: a plural noun before the phrase ends."""
    opening = re.match(r" ([\w-]+)(?:, [\w-]+)*, (?=[a-z])", right)  # "ten small, reversible decisions"
    if opening and not _is_plural(opening[1]):
        right = opening[0].replace(",", "") + right[opening.end() :]
    phrase = re.match(r"(?:[^,.;:!?()]|\.(?=\d))*", right)
    for number, word in enumerate(re.findall(r"[\w'’/-]+", phrase[0] if phrase else "")):
        if number > 7 or re.fullmatch(
            r"(?i)(?:to|for|with|that|which|who|when|where|by|from|into|on|at|as|because|so|is|are|was|were|can|should|than|per)", word
        ):
            return False
        if _is_plural(word):
            return True
    return False


ODD_PLURALS = frozenset(
    "people criteria phenomena children women men alternatives media series species data indices apis crms llms".split()
)


def _is_plural(word):
    if re.fullmatch(r"[A-Z]\w*[A-Z]s", word):  # KPIs
        return True
    word = word.lower().rstrip("'’")
    if word in ODD_PLURALS:
        return True
    return bool(re.search(r"(?<![su])s$|[a-z]ies$|ses$|ches$", word)) and not re.search(
        r"(?:ss|us|is|ous|news|physics|politics|economics|mathematics|ethics|robotics|analytics|logistics|genetics|mechanics)$", word
    )


def build_criteria(task_text):
    """Return the criterion specs of a task: a section each for 2 to 7 items asked for, else at least 3 sections."""
    count = _extract_count(task_text)
    exact = count in EXACT_COUNTS
    sections = {"type": "exact_sections", "n": count} if exact else {"type": "min_sections", "n": 3}
    size, lines = (600, 10) if exact else (800, 15)
    return [sections, {"type": "min_bytes", "n": size}, {"type": "min_lines", "n": lines}, *map(dict, QUALITY_SPECS)]


# ----------------------------------------------------------------------------------------------
# How close two tasks are
# ----------------------------------------------------------------------------------------------

# Two tasks at or above it are the same task in other words. Measured on the built-in bank and on pairs
# of model answers: rewordings of one task lie above, one topic under two questions lies below.
DUPLICATE_THRESHOLD = 0.6
# Words of the template around a topic: they are shared by tasks that have nothing else in common.
TEMPLATE_WORDS = frozenset(
    """a about across after all also amid an and any are around as at be been before best better between both build but by can
    common compare comparing comprehensive current currently deep describe detailed different do does each effective emerging
    evaluate evidence example examples explain explore find five following for four from give good guide have how i identify
    impact important in include including into investigate is it its key latest lessons list look main major make many markdown me
    methods more most my need new of on one open or our out over overview practical practice practices practitioners proven
    provide publish question questions rank real recent recommend report research result results review right save search
    section sections should six some solid state strategy strategies summarize summarise summary survey techniques team teams
    technique that the their them these they this three to today top two up us use used using ways way we week what when where
    which while who why will with within without work works world write you your approach approaches analyze analyse analysis
    ten seven eight nine dozen experienced reported reports case cases studies study say says remain know first small trade offs tradeoffs tool tools file eval md""".split()
)


@functools.lru_cache(maxsize=16384)
def content_words(text):
    """Return what a task is about: the stems of its words (a frozenset), without file, numbers and template."""
    text = unicodedata.normalize("NFKD", _without_files(text)).casefold()
    words = re.findall(r"[^\W\d_][\w+#]*", "".join(c for c in text if not unicodedata.combining(c)))
    return frozenset(_stem(word) for word in words if word not in TEMPLATE_WORDS)


ENDINGS = "izations isations ization isation izing ising ized ised ize ise ations ation ings ing ies ions ion ers er ed es s e y".split()


def _stem(word):
    """Cut English endings, so that "optimizing costs" and "cost optimization" meet."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def similarity(words, other):
    """Return the Jaccard index of two sets of words, 0.0 to 1.0 (Jaccard 1912: shared / all)."""
    return len(words & other) / len(words | other) if words and other else 0.0


# ----------------------------------------------------------------------------------------------
# Specs, the fixed suite, and the generated one
# ----------------------------------------------------------------------------------------------

QUALITY_SPECS = [{"type": "no_placeholders"}, {"type": "has_impl_notes"}, {"type": "no_file_path_refs"}]

# id, what it is about, the task without its file, the file, the section criterion, bytes, lines
FIXED_TASKS = [
    (
        "T_A",
        "context engineering",
        "Research the top 5 context engineering techniques used in production LLM agents",
        "eval-context-engineering.md",
        {"type": "exact_sections", "n": 5},
        800,
        15,
    ),
    (
        "T_B",
        "cost envelope",
        "Research best practices for managing the cost envelope of AI agents in production",
        "eval-cost-management.md",
        {"type": "min_sections", "n": 3},
        800,
        15,
    ),
    (
        "T_C",
        "failure modes",
        "Research the 3 most common failure modes of multi-agent AI systems",
        "eval-agent-failure-modes.md",
        {"type": "exact_sections", "n": 3},
        600,
        10,
    ),
    (
        "T_D",
        "context window",
        "Research the top 3 strategies for managing the context window in production LLM applications",
        "eval-context-window.md",
        {"type": "exact_sections", "n": 3},
        600,
        10,
    ),
    (
        "T_E",
        "prompt injection",
        "Research best practices for defending production AI systems against prompt injection",
        "eval-prompt-injection.md",
        {"type": "min_sections", "n": 3},
        800,
        15,
    ),
]


class SuiteError(ValueError):
    """Bad data; `faults` lists every fault in a line each, naming file, task and key."""

    def __init__(self, faults):
        super().__init__("\n".join(faults))
        self.faults = list(faults)


def arguments_of(spec):
    """Return what a criterion's factory is called with: the keys of its spec but the type."""
    return {key: value for key, value in spec.items() if key != "type"}


def criteria_from_specs(specs):
    """Turn JSON specs (a list of {"type": ..., further arguments}) into checks; raises SuiteError naming each fault."""
    if not isinstance(specs, list) or not specs:
        raise SuiteError([f"must be a list of at least one criterion, not {_one_line(repr(specs))}"])
    checks, faults = [], []
    for number, spec in enumerate(specs):
        kind = spec.get("type") if isinstance(spec, dict) else None
        if not isinstance(kind, str):
            faults.append(f"[{number}]: must be an object with a type, not {_one_line(repr(spec))}")
        elif kind not in CRITERIA:
            faults.append(f"[{number}]: unknown type {_one_line(repr(kind))}; known: {', '.join(CRITERIA)}")
        else:
            try:
                checks.append(CRITERIA[kind](**arguments_of(spec)))
            except (TypeError, ValueError) as error:
                faults.append(f"[{number}]: {kind}: {_one_line(str(error), 200)}")
    if faults:
        raise SuiteError(faults)
    return checks


def fixed_suite(base=BASE):
    """Return the five fixed tasks, saving below `base`: dicts with id, desc, task, output, criteria, criteria_specs, group."""
    suite = []
    for id, about, text, file, sections, size, lines in FIXED_TASKS:
        specs = [sections, {"type": "min_bytes", "n": size}, {"type": "min_lines", "n": lines}, *QUALITY_SPECS]
        output = f"{base.rstrip('/')}/{file}"
        task = {"id": id, "desc": f"fixed: {about}", "task": f"{text} and save to {output}", "output": output}
        suite.append(task | {"criteria": criteria_from_specs(specs), "criteria_specs": specs, "group": "fixed"})
    return suite


SUITE = fixed_suite()

TEXT_KEYS = ("id", "desc", "task", "output", "persona", "raw_response")
MAY_BE_EMPTY = ("desc", "raw_response")


def load_generated_suite(path=GENERATED_FILE, base=BASE):
    """Read generated tasks from a JSON file and return them in the form of SUITE.

    Nothing in the file is trusted. All faults are gathered and raised at once as SuiteError; a file
    with a fault yields no task. Tasks made for the default folder are moved to `base`. Keys beyond the
    known ones are kept.
    """
    tasks = check_generated(read_json(path, "; `python tinytroupe_tasks.py` writes one"), str(path), base)
    return [task | {"criteria": criteria_from_specs(task["criteria_specs"]), "group": "generated"} for task in tasks]


def read_json(path, hint=""):
    """Parse a JSON file; raises SuiteError with one line on what is wrong with it."""

    def no_repeats(pairs):
        keys = [key for key, _ in pairs]
        repeated = {key for key in keys if keys.count(key) > 1}
        if repeated:
            raise ValueError(f"the key {min(repeated)!r} stands twice in one object")
        return dict(pairs)

    try:
        with open(os.path.expanduser(path), encoding="utf-8-sig") as file:
            return json.load(file, object_pairs_hook=no_repeats)
    except FileNotFoundError:
        raise SuiteError([f"{path}: no such file{hint}"]) from None
    except OSError as error:
        raise SuiteError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise SuiteError([f"{path}: not UTF-8 at byte {error.start}"]) from None
    except RecursionError:
        raise SuiteError([f"{path}: nested too deeply"]) from None
    except ValueError as error:
        raise SuiteError([f"{path}: not valid JSON: {error}"]) from None


def check_generated(data, name, base=BASE):
    """Return the tasks of parsed JSON, moved to `base`; raises SuiteError with every fault, each led by `name`."""
    if not isinstance(data, list):
        raise SuiteError([f"{name}: must be a JSON array of tasks, not {type(data).__name__}"])
    if not data:
        raise SuiteError([f"{name}: holds no tasks"])
    faults, tasks = [], []
    ids = {id.casefold(): "the fixed suite" for id, *_ in FIXED_TASKS}
    outputs = {_resolved(f"{base}/{row[3]}").casefold(): f"fixed task {row[0]}" for row in FIXED_TASKS}
    for number, task in enumerate(data):
        where, wrong = f"{name}: task {number + 1}", []
        if not isinstance(task, dict):
            faults.append(f"{where}: must be an object, not {_one_line(repr(task))}")
            continue
        for key in TEXT_KEYS:
            value = task.get(key)
            if key not in task:
                wrong.append(f"{key} is missing")
            elif not isinstance(value, str):
                wrong.append(f"{key} must be a string, not {_one_line(repr(value))}")
            elif not value.strip() and key not in MAY_BE_EMPTY:
                wrong.append(f"{key} is empty")
            elif key != "raw_response" and (bad := re.search(r"[\0\ud800-\udfff]", value)):
                what = "a NUL character" if bad[0] == "\0" else "half a character (a lone surrogate)"
                wrong.append(f"{key} has {what} in it")
        if "criteria_specs" not in task:
            wrong.append("criteria_specs is missing")
        else:
            try:
                criteria_from_specs(task["criteria_specs"])
            except SuiteError as error:
                wrong += [f"criteria_specs{'' if fault[0] == '[' else ' '}{fault}" for fault in error.faults]
        id, output = task.get("id"), task.get("output")
        if isinstance(id, str) and id:
            where += f" ({_one_line(id, 40)})"
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", id):
                wrong.append("id may have letters, digits, '.', '_' and '-' only")
            if id.casefold() in ids:
                wrong.append(f"id is taken by {ids[id.casefold()]}")
            ids.setdefault(id.casefold(), f"task {number + 1}")
        if isinstance(output, str) and output.strip() and not re.search(r"[\0\ud800-\udfff]", output):
            task = _moved(task, base)
            place = _resolved(task["output"])
            if not place.startswith(_resolved(base).rstrip(os.sep) + os.sep):
                wrong.append(f"output {task['output']!r} is outside the base folder {base} (set another with --base)")
            elif place.casefold() in outputs:
                wrong.append(f"output {task['output']!r} is that of {outputs[place.casefold()]}")
            outputs.setdefault(place.casefold(), f"task {number + 1}")
        faults += [f"{where}: {fault}" for fault in wrong]
        if not wrong:
            tasks.append(task)
    if faults:
        raise SuiteError(faults)
    return tasks


def text_without_folder(task):
    """Return a task's text with the bare name of its file, for a folder says nothing of what is asked."""
    return task["task"].replace(task["output"], os.path.basename(task["output"]))


def _resolved(path):
    return os.path.realpath(os.path.expanduser(path))


def _moved(task, base):
    """Move a task that saves below the default folder to `base`, in its output and in its text."""
    if base == BASE or not task["output"].startswith(BASE + "/"):
        return task
    output = base.rstrip("/") + task["output"][len(BASE) :]
    text = task.get("task")
    return task | {"output": output, "task": text.replace(task["output"], output) if isinstance(text, str) else text}


# ----------------------------------------------------------------------------------------------
# Proof: can the criteria be met, and do they check anything?
# ----------------------------------------------------------------------------------------------

LARGEST_WITNESS = 1_000_000  # bytes; a criterion that asks for more can't be met by a report that people read

# A report is drawn from a plan: how many sections, at least (or at most) how many bytes and lines, whether
# it holds an example, and lines at its end.
PLAN: dict = {"sections": 0, "bytes": 0, "lines": 0, "most_bytes": None, "most_lines": None, "example": True, "tail": ()}

# Criterion type -> (what a plan needs to meet the criterion, what in the plan makes it fail), as functions
# of the plan and the spec's arguments that return the changed keys. A type without an entry is "unproved".
WITNESSES: dict = {
    "exact_sections": (lambda plan, n: {"sections": n}, lambda plan, n: {"sections": n + 1}),
    "min_sections": (lambda plan, n: {"sections": max(plan["sections"], n)}, lambda plan, n: {"sections": n - 1}),
    "min_bytes": (lambda plan, n: {"bytes": max(plan["bytes"], n)}, lambda plan, n: {"bytes": 0, "most_bytes": n - 1}),
    "min_lines": (lambda plan, n: {"lines": max(plan["lines"], n)}, lambda plan, n: {"lines": 0, "most_lines": n - 1}),
    "no_placeholders": (lambda plan: {}, lambda plan: {"tail": (*plan["tail"], "TODO: add the numbers.")}),
    "has_impl_notes": (lambda plan: {}, lambda plan: {"example": False}),
    "no_file_path_refs": (lambda plan: {}, lambda plan: {"tail": (*plan["tail"], "This report has been saved to ~/reports/report.md.")}),
}

NULL_AGENTS = {
    "empty report": lambda task, witness: "",
    "headings only": lambda task, witness: "\n".join(line for line in witness.split("\n") if line.startswith("#")),
    "task echoed": lambda task, witness: task["task"],
    "filler repeated": lambda task, witness: "\n\n".join(["It is important to consider all relevant aspects of this topic."] * 40),
    "refusal": lambda task, witness: "I'm sorry, but I can't help with that request.",
    "no headings": lambda task, witness: re.sub(r"(?m)^#+ ", "", witness),
    "empty sections": lambda task, witness: "# Report\n\n" + "".join(f"## Part {k + 1}\n\n" for k in range(_section_count(task))),
}


def draw_report(plan):
    """Return the Markdown of a plan: a title, its sections, an example, and as much text as its sizes need."""
    tail = [part for line in plan["tail"] for part in ("", line)]
    body = [
        "Use a cache for repeated prompts, for example one in Redis."
        if plan["example"]
        else "Caches help with repeated prompts in most systems."
    ]
    lines = ["# Report", *body]
    for number in range(plan["sections"]):
        lines += [f"## Finding {chr(65 + number % 26)}{number // 26 or ''}", "Measured."]
    if plan["most_lines"] is not None and len(lines) + len(tail) > plan["most_lines"]:
        lines[1] = " ".join([lines[1], *filter(None, tail)])
        lines, tail = [line for line in lines if line != "Measured."], []
    # Where bytes are scarce, blank lines are lines too.
    filler = "Costs fell." if plan["most_bytes"] is None else ""
    lines[2:2] = [filler] * max(0, plan["lines"] - len(lines) - len(tail))
    size = len("\n".join(lines + tail).encode()) + 1
    if plan["most_bytes"] is None:
        # Growing one line leaves the number of lines as it is.
        lines[1] += " Costs fell by a third." * max(0, -(-(plan["bytes"] - size) // 23))
    return "\n".join(lines + tail) + "\n"


def _section_count(task):
    return next((spec["n"] for spec in task["criteria_specs"] if spec["type"].endswith("_sections")), 3)


def _tried(check, report):
    """Return a check's verdict and detail; one that raises, a user's own, is a failure."""
    try:
        passed, detail = check(report)
    except Exception as error:
        return False, f"raised {type(error).__name__}: {error}"
    return bool(passed), detail


def prove(specs):
    """Prove criterion specs: return (the witness report or None, rows of {"name", "proof"}, flags).

    The witness passes all criteria; for each criterion a mutant, the witness changed in one respect,
    fails it alone. `proof` is "proved", "unproved" for a type that WITNESSES does not know, or what is wrong.
    """
    checks = criteria_from_specs(specs)
    plan, rows, flags = dict(PLAN), [], []
    known = [k for k, spec in enumerate(specs) if spec["type"] in WITNESSES]
    for k in known:
        plan |= WITNESSES[specs[k]["type"]][0](plan, **arguments_of(specs[k]))
    if plan["bytes"] > LARGEST_WITNESS or plan["lines"] * 12 > LARGEST_WITNESS or plan["sections"] * 20 > LARGEST_WITNESS:
        return None, [], [f"no witness: the criteria ask for more than {LARGEST_WITNESS:,} bytes"]
    witness = draw_report(plan)
    verdicts = [(check_name(checks[k]), *_tried(checks[k], witness)) for k in known]
    missed = [f"{name} ({detail})" for name, passed, detail in verdicts if not passed]
    if missed:
        return None, [], [f"no witness passes all criteria; it misses {'; '.join(missed)}"]
    for number, check in enumerate(checks):
        name, proof = check_name(check), "unproved"
        if number in known:
            mutant = draw_report(plan | WITNESSES[specs[number]["type"]][1](plan, **arguments_of(specs[number])))
            failed = [k for k in known if not _tried(checks[k], mutant)[0]]
            others = [check_name(checks[k]) for k in failed if k != number]
            if number not in failed:
                proof = "checks nothing: its mutant passes"
            elif others:
                proof = f"fails only together with {', '.join(others)}"
            else:
                proof = "proved"
        if proof not in ("proved", "unproved"):
            flags.append(f"{name} {proof}")
        rows.append({"name": name, "proof": proof})
    return witness, rows, flags


def audit_task(task, fixed=SUITE):
    """Audit one task: its proof, the null agents, the count in its text, the closest fixed task; return a dict with `flags`."""
    witness, rows, flags = prove(task["criteria_specs"])
    reports = {name: write(task, witness) for name, write in NULL_AGENTS.items()} if witness else {}
    passed = {name: [_tried(check, report)[0] for check in task["criteria"]] for name, report in reports.items()}
    floors = {name: sum(verdicts) / len(verdicts) for name, verdicts in passed.items()}
    flags += [f"the null agent {name!r} passes all criteria" for name, floor in floors.items() if floor == 1]
    flags += [
        f"{row['name']} is unproved and passes every null agent"
        for number, row in enumerate(rows)
        if row["proof"] == "unproved" and all(verdicts[number] for verdicts in passed.values())
    ]
    asked = _extract_count(text_without_folder(task))
    exact = next((spec["n"] for spec in task["criteria_specs"] if spec["type"] == "exact_sections"), None)
    if exact is not None and asked != exact:
        flags.append(f"the text asks for {asked or 'no exact number'}, the criteria for exactly {exact}")
    elif exact is None and asked in EXACT_COUNTS:
        flags.append(f"the text asks for {asked}, the criteria for no exact number")
    words = content_words(text_without_folder(task))
    others = ((content_words(text_without_folder(f)), f["id"]) for f in fixed if f["id"] != task["id"])
    near, closest = max((similarity(words, other), id) for other, id in others)
    if near >= DUPLICATE_THRESHOLD:
        flags.append(f"too close to {closest} ({near:.2f})")
    return {
        "id": task["id"],
        "witness_bytes": len(witness.encode()) if witness else None,
        "criteria_asked": len(task["criteria"]),
        "criteria": rows,
        "floors": floors,
        "asked": asked,
        "exact": exact,
        "closest": closest if near else None,
        "similarity": near,
        "flags": flags,
    }


# ----------------------------------------------------------------------------------------------
# Running an agent and checking what it wrote
# ----------------------------------------------------------------------------------------------

KILL_GRACE = 5.0  # seconds between asking an agent to stop and killing it
SHOWN_LOG_LINES = 3


def check_task(task, seconds=0.0, exit_status=None):
    """Check the report that a task's output holds now; return the task's result.

    A result is a dict: `id`, `group`, `persona`, `status` ("passed", "failed" or "error"), `score` (0.0 to
    1.0, criteria passed / criteria), `seconds`, `exit_status`, `error` (None or a line) and `criteria`
    (dicts with `name`, `passed` and `detail`; empty on an error) and `fingerprint`.
    """
    path = os.path.expanduser(task["output"])

    def failed(error):
        return _result(task, [], error, seconds, exit_status)

    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return failed(f"unreadable: {path} is not a file")
        with open(path, "rb") as file:
            content = file.read().decode("utf-8")
    except FileNotFoundError:
        return failed(f"no report at {path}")
    except UnicodeDecodeError as error:
        return failed(f"not UTF-8: byte {error.start} of {path}")
    except OSError as error:
        return failed(f"unreadable: {path}: {error.strerror}")
    rows = []
    for check in task["criteria"]:
        try:
            passed, detail = check(content)
        except Exception as error:  # a user's own criterion; a broken judge is no verdict
            return failed(f"criterion {check_name(check)} raised {type(error).__name__}: {error}")
        rows.append({"name": check_name(check), "passed": bool(passed), "detail": str(detail)})
    return _result(task, rows, None, seconds, exit_status)


def _result(task, rows, error, seconds, exit_status):
    passed = sum(row["passed"] for row in rows)
    status = "error" if error else "passed" if passed == len(rows) else "failed"
    return {
        "id": task["id"],
        "group": task.get("group", "fixed"),
        "persona": task.get("persona"),
        "status": status,
        "score": 0.0 if error else passed / len(rows),
        "seconds": round(seconds, 3),
        "exit_status": exit_status,
        "error": _one_line(error, 1000) if error else None,
        "criteria": rows,
        "fingerprint": task_fingerprint(task),
    }


def task_fingerprint(task):
    """Return 16 hex digits of a hash of a task's text (its folder left out) and criteria, by which runs are matched."""
    return _digest(json.dumps([text_without_folder(task), [check_name(check) for check in task["criteria"]]]))[:16]


def _digest(text):
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def agent_words(agent, task):
    """Return the argument list that runs `agent` (a command line) on a task.

    The template is split first and filled afterwards, so a task's text is always one argument or a part
    of one. Raises ValueError for a template that can't be split.
    """
    import shlex

    values = {"{task}": task["task"], "{output}": os.path.expanduser(task["output"])}
    words = shlex.split(agent)
    if not words or re.search(r"\{(?:task|output)\}", words[0]):
        raise ValueError("the first word must name a program; {task} and {output} may stand in later words only")
    words[0] = os.path.expanduser(words[0])
    filled = [re.sub(r"\{(?:task|output)\}", lambda found: values[found[0]], word) for word in words]
    return filled if any("{task}" in word for word in words) else [*filled, task["task"]]


def run_task(task, agent, timeout=900.0, capture=False, log_dir=None, running=None, log_name=None):
    """Run an agent on one task, then check the report; return the result (see check_task).

    `agent` is a command line with {task} and {output}, `timeout` is in seconds, `capture` saves what the
    agent prints as the report. What it prints otherwise goes to `log_dir`/<id>.log. `running` is a set
    in which the process stands while it runs, for a caller who may have to end it.
    """
    import subprocess
    import tempfile
    import time

    path = os.path.expanduser(task["output"])
    start = time.monotonic()

    def failed(error, exit_status=None):
        return _result(task, [], error, time.monotonic() - start, exit_status)

    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        before = _mark(path)
        if log_dir:
            os.makedirs(log_dir, exist_ok=True)
        log = open(os.path.join(log_dir, log_name or f"{task['id']}.log"), "w+b") if log_dir else tempfile.TemporaryFile()
        printed = tempfile.TemporaryFile() if capture else log
    except OSError as error:
        return failed(f"cannot prepare the run: {error}")
    with log, printed:
        # A group of its own, so that the agent's children can be ended with it (0x200: the same on Windows).
        group: dict = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200}
        try:
            words = agent_words(agent, task)
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=printed, stderr=log, **group)
        except (OSError, ValueError) as error:
            return failed(f"cannot start the agent: {error}")
        if running is not None:
            running.add(process)
        try:
            exit_status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            end_process(process)
            return failed(f"timeout after {timeout:g} s{_last_lines(log)}", process.returncode)
        except BaseException:
            end_process(process)
            raise
        finally:
            if running is not None:
                running.discard(process)
        if getattr(process, "ended", False):
            return failed("interrupted", exit_status)
        if capture:
            printed.seek(0)
            text = printed.read()
            try:
                if text.strip():
                    write_whole(path, text)
            except OSError as error:
                return failed(f"the report can't be written to {path}: {error.strerror}", exit_status)
        seconds = time.monotonic() - start
        if _mark(path, set_back=False) == before:
            shown = f"exit status {exit_status}, " if exit_status else ""
            stale = "stale: the report there is from before this run" if before else f"no report at {path}"
            return _result(task, [], shown + stale + _last_lines(log), seconds, exit_status)
    return check_task(task, seconds, exit_status)


def _mark(path, set_back=True):
    """Return what changes when a file is written; None for no file.

    The old report's time of change is set back by a moment first: a rewrite with the same bytes within
    the file system's clock tick would otherwise look like no write at all.
    """
    try:
        if set_back:
            seen = os.stat(path)
            os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns - 1_000_000_000))
    except OSError:
        pass
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def end_process(process):
    """End an agent with every process that it started: ask first, kill after KILL_GRACE seconds."""
    import signal
    import subprocess

    def send(name, alone):
        try:
            if os.name == "posix":
                os.killpg(process.pid, getattr(signal, name))
            else:
                alone()
        except (ProcessLookupError, PermissionError):
            pass

    process.ended = True  # so that what it printed so far is not taken for its report
    send("SIGTERM", process.terminate)
    try:
        process.wait(KILL_GRACE)
    except subprocess.TimeoutExpired:
        pass
    # The leader may be gone while others of its group still run.
    send("SIGKILL", process.kill)
    process.wait()


def _last_lines(log):
    """Return the last lines of an open log, as the tail of an error message."""
    log.seek(max(0, log.seek(0, os.SEEK_END) - 4000))
    lines = log.read().decode("utf-8", "replace").split("\n")
    lines = [_one_line(line, 200) for line in lines if line.strip()][-SHOWN_LOG_LINES:]
    return f"; it printed: {' | '.join(lines)}" if lines else ""


def write_whole(path, data):
    """Write bytes or text to a file by way of a temporary one beside it, so that no half file is ever seen."""
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    path = os.path.expanduser(path)
    if is_device(path):
        with open(path, "ab") as file:
            file.write(data)
        return
    path = os.path.realpath(path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def is_device(path):
    """Tell whether a path is a pipe, a device or /dev/stdout, which a file must not take the place of."""
    return path.startswith("/dev/") or os.path.exists(path) and not os.path.isfile(path)


def score_suite(tasks, agent=None, timeout=900.0, jobs=1, capture=False, log_dir=None, repeat=1, on_result=None):
    """Run an agent over tasks (or, without one, check the reports that exist) and return the run as JSON-able data.

    The run is a dict: `score` (0.0 to 1.0, the mean over its tasks), `scores` (the same a group), `tasks`
    (results in the order of `tasks`) and `interrupted`; with `repeat` above 1 also `pass_k` (the share of
    tasks that passed every time) and `spread` (the standard deviation of the suite's score over the
    repeats). `jobs` tasks run side by side; `on_result` is called with each result as it comes. On Ctrl-C
    the agents are ended and what is done is returned.
    """
    import concurrent.futures
    import threading

    running: set = set()
    done: dict = {}
    interrupted = False
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=jobs)

    def work(task):
        if agent is None:
            return check_task(task)
        runs = []
        for number in range(1, repeat + 1):
            if interrupted:
                break
            log_name = f"{task['id']}.{number}.log" if repeat > 1 else None
            runs.append(run_task(task, agent, timeout, capture, log_dir, running, log_name))
        return runs[0] if repeat == 1 else _repeated(runs)

    futures = {pool.submit(work, task): number for number, task in enumerate(tasks)}
    try:
        for future in concurrent.futures.as_completed(futures):
            done[futures[future]] = future.result()
            if on_result:
                on_result(done[futures[future]])
    except KeyboardInterrupt:
        interrupted = True  # seen by the workers
        pool.shutdown(wait=False, cancel_futures=True)
        # A worker may be just about to start its agent, so look until the last worker is through.
        while not all(future.done() for future in futures):
            for ending in [threading.Thread(target=end_process, args=(process,)) for process in list(running)]:
                ending.start()
            try:
                concurrent.futures.wait(futures, timeout=0.2)
            except KeyboardInterrupt:
                pass  # the agents are being ended already
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    results = [done[number] for number in sorted(done)]
    scores = {group: _mean([r["score"] for r in results if r["group"] == group]) for group in sorted({r["group"] for r in results})}
    run = {"score": _mean([r["score"] for r in results]), "scores": scores, "tasks": results, "interrupted": interrupted}
    if repeat > 1 and results:
        rounds = [_mean([r["runs"][k]["score"] for r in results]) for k in range(min(len(r["runs"]) for r in results))]
        run |= {"repeat": repeat, "pass_k": _mean([float(r["status"] == "passed") for r in results]), "spread": _deviation(rounds)}
    return run


def _repeated(runs):
    """Return the result of a task that was run several times: mean score, "passed" only if it passed every time."""
    errors = [run for run in runs if run["status"] == "error"]
    failed = [run for run in runs if run["status"] == "failed"]
    shown = (failed or errors or runs)[0]
    kept = ("status", "score", "seconds", "exit_status", "error", "criteria")
    return shown | {
        "status": "passed" if not failed and not errors else "error" if len(errors) == len(runs) else "failed",
        "score": _mean([run["score"] for run in runs]),
        "seconds": round(sum(run["seconds"] for run in runs), 3),
        "error": f"in {len(errors)} of {len(runs)} runs: {errors[0]['error']}" if errors else None,
        "runs": [{key: run[key] for key in kept} for run in runs],
        "errors": len(errors),
    }


def _deviation(values):
    mean = _mean(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0


def _mean(values):
    return sum(values) / len(values) if values else 0.0


# ----------------------------------------------------------------------------------------------
# Comparing two runs: keep, revert or can't tell
# ----------------------------------------------------------------------------------------------

# The 97.5% points of Student's t for 1 to 30 degrees of freedom.
T_975 = (
    "12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 2.145 2.131 2.120 2.110 2.101 2.093 2.086 "
    "2.080 2.074 2.069 2.064 2.060 2.056 2.052 2.048 2.045 2.042"
).split()
Z_80 = 0.842  # the normal's 80% point, for the gain that would be found four times in five
EXACT_CLUSTERS = 14  # up to here every combination of signs is counted
SIGN_DRAWS = 10_000
FEWEST_FLIPPED = 6  # clusters; with fewer no combination of signs is rarer than 5%, so the test can't object
MOST_ERRORS = 0.1  # the share of tasks with errors above which a run can't be kept
SHOWN_GAIN = 0.1
EXIT_STATUS = {"KEEP": 0, "REVERT": 1, "OVERFIT": 1, "CAN'T TELL": 3}


def t_quantile(freedom):
    """Return the 97.5% point of Student's t: from a table, above 30 degrees by Abramowitz and Stegun 26.7.5."""
    if freedom < 1:
        return float("inf")
    z = 1.959964
    return float(T_975[int(freedom) - 1]) if freedom <= 30 else z + (z**3 + z) / (4 * freedom)


def sign_flip_test(sums, seed=0):
    """Return the two-sided p-value of a sign-flip test on the sums of differences of each cluster.

    Under the hypothesis of no change each sum is as likely to be negative (Fisher 1935). Exact for up to
    EXACT_CLUSTERS clusters, else from SIGN_DRAWS seeded draws, with the one seen counted in (Phipson and Smyth 2010).
    """
    import itertools
    import random

    seen = abs(sum(sums)) - 1e-9
    if len(sums) <= EXACT_CLUSTERS:
        totals = [sum(s * d for s, d in zip(signs, sums, strict=True)) for signs in itertools.product((1, -1), repeat=len(sums))]
        return sum(abs(total) >= seen for total in totals) / len(totals)
    chance = random.Random(seed)
    extreme = sum(abs(sum(d if chance.random() < 0.5 else -d for d in sums)) >= seen for _ in range(SIGN_DRAWS))
    return (extreme + 1) / (SIGN_DRAWS + 1)


def paired_difference(pairs):
    """Compare scores of the same tasks: `pairs` is a list of (cluster, old score, new score); return a dict.

    `difference` is the mean of new - old, `error` its standard error, clustered (the square root of the
    sum of squared cluster sums of deviations, divided by the number of tasks: Miller 2024, "Adding Error Bars
    to Evals", section 2.2; times G/(G-1) for G clusters: Cameron and Miller 2015), `low` and `high` the
    95% interval by Student's t with G-1 degrees of freedom, `p` that of the sign-flip test.
    """
    differences = [new - old for _, old, new in pairs]
    mean = _mean(differences)
    deviations: dict = {}
    sums: dict = {}
    for (cluster, _, _), difference in zip(pairs, differences, strict=True):
        deviations[cluster] = deviations.get(cluster, 0.0) + difference - mean
        sums[cluster] = sums.get(cluster, 0.0) + difference
    clusters = len(sums)
    variance = sum(d * d for d in deviations.values()) / len(pairs) ** 2 * clusters / (clusters - 1) if clusters > 1 else float("inf")
    error = math.sqrt(variance)
    reach = t_quantile(clusters - 1) * error
    return {
        "tasks": len(pairs),
        "clusters": clusters,
        "old": _mean([old for _, old, _ in pairs]),
        "new": _mean([new for _, _, new in pairs]),
        "difference": mean,
        "error": error,
        "low": mean - reach,
        "high": mean + reach,
        "p": sign_flip_test(list(sums.values())),
    }


def broken_tasks(pairs):
    """Return the ids of fixed tasks that broke beyond chance, and all that passed before and fail now.

    `pairs` is a list of (old result, new result). With repeated runs a task broke if Fisher's exact test on
    passed runs says so at 5% shared among the tasks (Bonferroni); together they broke if a sign test on the
    tasks that changed does.
    """
    fell = [new["id"] for old, new in pairs if old["status"] == "passed" and new["status"] != "passed"]
    rose = sum(old["status"] != "passed" and new["status"] == "passed" for old, new in pairs)
    broke = [new["id"] for old, new in pairs if _fisher(_passes(old), _passes(new)) <= 0.05 / len(pairs)]
    changed = len(fell) + rose
    by_sign = sum(math.comb(changed, k) for k in range(len(fell), changed + 1)) / 2**changed
    return (fell if by_sign <= 0.05 else broke), fell


def _error_share(result):
    return result["errors"] / len(result["runs"]) if "runs" in result else float(result["status"] == "error")


def _passes(result):
    runs = result.get("runs") or [result]
    return sum(run["status"] == "passed" for run in runs), len(runs)


def _fisher(old, new):
    """Return the one-sided p-value of Fisher's exact test that `new` passes less often than `old`: (passed, runs) each."""
    (a, n), (b, m) = old, new
    ways = math.comb(n + m, a + b)
    return sum(math.comb(m, k) * math.comb(n, a + b - k) for k in range(max(0, a + b - n), b + 1)) / ways


def compare_runs(old, new, margin=0.0):
    """Compare two runs (as read from --json files) of the same tasks; return a dict with the verdict.

    Raises SuiteError where they have no task in common or were made of different splits.
    """
    splits = [(run.get("split") or {}).get("fingerprint") for run in (old, new)]
    if splits[0] != splits[1]:
        raise SuiteError(["--compare: the two runs are of different splits; run both with the same --split, --holdout and --split-seed"])
    before = {(r["id"], r["fingerprint"]): r for r in old["tasks"]}
    after = {(r["id"], r["fingerprint"]): r for r in new["tasks"]}
    common = [key for key in before if key in after]
    left_out = sorted({key[0] for key in before.keys() ^ after.keys()})
    if not common:
        raise SuiteError(["--compare: the two files have no task in common (same id, text and criteria)"])
    pairs = [(before[key], after[key]) for key in common]
    fixed = [pair for pair in pairs if pair[1]["group"] == "fixed"]
    generated = [pair for pair in pairs if pair[1]["group"] != "fixed"]
    groups = {}
    if fixed:
        groups["fixed"] = paired_difference([(o["id"], o["score"], n["score"]) for o, n in fixed])
    if generated:
        groups["generated"] = paired_difference([(persona_of(o["id"]), o["score"], n["score"]) for o, n in generated])
    broke, fell = broken_tasks(fixed) if fixed else ([], [])
    errors = [sum(_error_share(r) for r in side) for side in zip(*pairs, strict=True)]
    result = {
        "interrupted": [name for name, run in (("old", old), ("new", new)) if run.get("interrupted")],
        "groups": groups,
        "gap": _gap(groups),
        "broke": broke,
        "fell": fell,
        "errors": {"old": errors[0], "new": errors[1]},
        "left_out": left_out,
        "margin": margin,
        "tasks": [{"id": o["id"], "group": o["group"], "old": o["score"], "new": n["score"]} for o, n in pairs],
    }
    return result | _verdict(result, max(errors) / len(pairs))


def _gap(groups):
    """Return the overfit gap, the gain on fixed tasks minus that on generated ones, with its interval, or None.

    The errors add up as for two independent samples; the degrees of freedom are those of the smaller group,
    which is wider than Welch's (1947) and keeps five tasks from saying too much.
    """
    if len(groups) < 2:
        return None
    fixed, generated = groups["fixed"], groups["generated"]
    reach = t_quantile(min(fixed["clusters"], generated["clusters"]) - 1) * math.hypot(fixed["error"], generated["error"])
    gap = fixed["difference"] - generated["difference"]
    return {"difference": gap, "low": gap - reach, "high": gap + reach}


def _verdict(result, error_share):
    """Return the verdict on a comparison, the reason, and what this many tasks could have shown."""
    fixed, generated, gap = result["groups"].get("fixed"), result["groups"].get("generated"), result["gap"]
    margin, verdict = result["margin"], "CAN'T TELL"
    reason = "no gain or loss that stands out from chance"
    agreed = generated and (generated["p"] <= 0.05 or generated["clusters"] < FEWEST_FLIPPED)
    if result["broke"]:
        verdict, reason = "REVERT", f"fixed tasks broke: {', '.join(result['broke'])}"
    elif generated and generated["high"] < 0 and agreed:
        verdict, reason = "REVERT", "the generated tasks lost"
    elif generated and generated["low"] > margin and agreed:
        if result["fell"]:
            reason = f"the generated tasks gained, but {', '.join(result['fell'])} passed before and fails now"
        elif error_share > MOST_ERRORS:
            reason = f"the generated tasks gained, but {error_share:.0%} of the tasks had errors"
        else:
            verdict, reason = "KEEP", "the gain carries over to the generated tasks"
    elif fixed and gap and fixed["difference"] > 0 and gap["low"] > 0:
        verdict, reason = "OVERFIT", "the fixed tasks gained, the generated ones did not"
    elif generated and 0 < generated["low"] <= margin and agreed:
        reason = f"the generated tasks gained, but the interval does not lie above the margin of {margin:g}"
    elif not generated:
        reason = "there are no generated tasks to see whether a gain carries over"
    measured = generated or fixed
    # Two runs that happen to agree do not show that luck is nil: a criterion of six may flip on any task.
    luck = 1 / 6 / math.sqrt(measured["tasks"])
    spread = max(measured["error"], luck) if measured["clusters"] > 1 else float("inf")
    least = (t_quantile(measured["clusters"] - 1) + Z_80) * spread
    needed = math.ceil(measured["tasks"] * (least / SHOWN_GAIN) ** 2) if least < float("inf") else None
    return {"verdict": verdict, "reason": reason, "least_gain": least if needed else None, "tasks_for_shown_gain": needed}


def read_run(path):
    """Read the results that --json wrote; raises SuiteError where a file is not such."""
    run = read_json(path)
    tasks = run.get("tasks") if isinstance(run, dict) else None
    if not isinstance(tasks, list) or not tasks:
        raise SuiteError([f"{path}: holds no results of a run (an object with tasks, as --json writes it)"])
    faults = []
    for number, result in enumerate(tasks):
        kinds: dict = {"id": str, "group": str, "status": str, "score": (int, float), "fingerprint": str}
        for key, kind in kinds.items():
            if not isinstance(result, dict) or not isinstance(result.get(key), kind):
                faults.append(f"{path}: task {number + 1}: {key} is missing or of the wrong type")
            elif key == "score" and not 0 <= result[key] <= 1 or key == "group" and result[key] not in ("fixed", "generated"):
                faults.append(f"{path}: task {number + 1}: {key} can't be {result[key]!r}")
    if faults:
        raise SuiteError(
            faults[:5] + ([f"{path}: and {len(faults) - 5} faults more; is it a --json file of a run?"] if len(faults) > 5 else [])
        )
    return run


# ----------------------------------------------------------------------------------------------
# Showing results: table, JUnit XML, HTML
# ----------------------------------------------------------------------------------------------

PIPED_WIDTH = 140  # columns of a table that no terminal is there to bound
STATUS_STYLES = {"passed": "green", "failed": "yellow", "error": "red"}


def console_for(file):
    """Return a rich console on a stream; its tables keep a fixed width when the stream is piped."""
    from rich.console import Console

    console = Console(file=file, highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(file=file, highlight=False, width=PIPED_WIDTH)


def rendered(table, stream):
    """Return a rich table as the text that suits a stream."""
    import io

    console = console_for(stream)
    # In the stream's encoding: rich draws other lines where it lacks the usual ones.
    drawn = console.file = io.TextIOWrapper(io.BytesIO(), encoding=console.encoding, errors="replace")
    console.print(table)
    drawn.seek(0)
    return drawn.read().rstrip("\n")


def folding(header):
    """Return a table column that breaks a long word, such as a path, instead of cutting it off."""
    from rich.table import Column

    return Column(header, overflow="fold")


def what_is_wrong(result):
    """Return the lines that say why a task did not pass: its error, and each criterion that failed."""
    failed = [f"{c['name']}: {c['detail']}" for c in result["criteria"] if not c["passed"]]
    return ([result["error"]] if result["error"] else []) + failed


def results_table(run):
    """Return the rich table of a run: a row a task, with each failed criterion or the error."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*map(folding, ("task", "status", "score", "seconds", "exit", "what is wrong")))
    for result in run["tasks"]:
        wrong = what_is_wrong(result)
        exit_status = "" if result["exit_status"] is None else str(result["exit_status"])
        cells = [result["id"], result["status"], f"{result['score']:.3f}", f"{result['seconds']:.1f}", exit_status, "\n".join(wrong)]
        table.add_row(*(Text(cell, style=STATUS_STYLES[result["status"]] if n == 1 else "") for n, cell in enumerate(cells)))
    return table


def summary_line(run):
    """Return one line on a run: tasks by status, and the score, whole and a group."""
    counts = [(status, sum(r["status"] == status for r in run["tasks"])) for status in STATUS_STYLES]
    scores = ", ".join(f"{group} {score:.3f}" for group, score in run["scores"].items()) if len(run["scores"]) > 1 else ""
    told = ", ".join(f"{n} {status if status != 'error' or n == 1 else 'errors'}" for status, n in counts)
    repeats = f"; passed all {run['repeat']} times: {run['pass_k']:.3f}, spread {run['spread']:.3f}" if "repeat" in run else ""
    return f"{_count(len(run['tasks']), 'task')}: {told}; score {run['score']:.3f}{f' ({scores})' if scores else ''}{repeats}"


def audit_table(rows):
    """Return the rich table of an audit: a row a task."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*map(folding, ("task", "witness", "proved", "best null agent", "asked / exact", "closest fixed", "flags")))
    for row in rows:
        proved = sum(c["proof"] == "proved" for c in row["criteria"])
        floor, share = max(row["floors"].items(), key=lambda item: item[1], default=("", 0.0))
        cells = [row["id"], f"{row['witness_bytes']} bytes" if row["witness_bytes"] else "none", f"{proved}/{row['criteria_asked']}"]
        cells += [
            f"{share:.2f} {floor}",
            f"{row['asked'] or '-'} / {row['exact'] or '-'}",
            f"{row['closest']} {row['similarity']:.2f}" if row["closest"] else "-",
        ]
        table.add_row(*map(Text, cells), Text("\n".join(row["flags"]), style="red"))
    return table


COMPARISON_HEADERS = ("group", "tasks", "clusters", "old", "new", "difference", "95% interval", "p")


def comparison_rows(result):
    """Return the cells of a comparison under COMPARISON_HEADERS: a row a group, and the gap."""
    rows = [
        [
            name,
            f"{g['tasks']}",
            f"{g['clusters']}",
            f"{g['old']:.3f}",
            f"{g['new']:.3f}",
            f"{g['difference']:+.3f}",
            _interval(g),
            f"{g['p']:.3f}",
        ]
        for name, g in result["groups"].items()
    ]
    gap = result["gap"]
    return rows + ([["overfit gap", *[""] * 4, f"{gap['difference']:+.3f}", _interval(gap), ""]] if gap else [])


def comparison_table(result):
    """Return the rich table of a comparison."""
    from rich.table import Table

    table = Table(*COMPARISON_HEADERS)
    for row in comparison_rows(result):
        table.add_row(*row)
    return table


def _interval(row):
    return f"{row['low']:+.3f} to {row['high']:+.3f}" if math.isfinite(row["low"]) else "unbounded"


def comparison_lines(result):
    """Return the lines below a comparison's table; the last one is the verdict."""
    lines = [f"errors: {result['errors']['old']:g} old, {result['errors']['new']:g} new"]
    if result["interrupted"]:
        lines.append(f"interrupted, so not all tasks are there: {', '.join(result['interrupted'])}")
    if result["fell"]:
        lines.append(f"passed before, not now: {', '.join(result['fell'])}")
    if result["left_out"]:
        lines.append(f"left out, not the same task in both files: {', '.join(result['left_out'])}")
    could = "one task or persona shows no gain of any size"
    if result["least_gain"] is not None and result["least_gain"] > 1:
        could = f"so few tasks could have shown no gain of any size; a gain of {SHOWN_GAIN:g} takes about {result['tasks_for_shown_gain']} tasks"
    elif result["least_gain"] is not None:
        could = (
            f"the smallest gain that these tasks could have shown is {result['least_gain']:.2f}; "
            f"a gain of {SHOWN_GAIN:g} takes about {result['tasks_for_shown_gain']} tasks of as many personas"
        )
    return [*lines, f"{result['verdict']}: {result['reason']}; {could}"]


HTML_HEAD = """<!doctype html><meta charset="utf-8"><title>Comparison</title><style>
body { font: 15px sans-serif; margin: 2em; color: #222 } td, th { padding: .2em .9em; text-align: right }
th { border-bottom: 1px solid #999 } svg { margin-right: 3em } text { font: 12px sans-serif; fill: #444 }
.up { stroke: #1a7f37 } .down { stroke: #cf222e } .same { stroke: #999 }</style>"""


def comparison_html(result):
    """Return a comparison as one HTML page: the verdict, the intervals, and for each task a line from old to new."""
    from html import escape

    lines = "".join(f"<p>{escape(line)}</p>\n" for line in comparison_lines(result))
    rows = "\n".join("<tr>" + "".join(f"<td>{cell}" for cell in row) + "</tr>" for row in comparison_rows(result))
    table = f"<table><tr>{''.join(f'<th>{header}' for header in COMPARISON_HEADERS)}</tr>\n{rows}\n</table>"
    parts = [HTML_HEAD, f"<h1>{escape(result['verdict'])}</h1>", lines + table, _interval_svg(result)]
    return "\n".join(parts + [_slopes_svg(name, [t for t in result["tasks"] if t["group"] == name]) for name in result["groups"]]) + "\n"


def _slopes_svg(name, tasks):
    """Return a drawing of one group's tasks, each a line from its old score to its new one."""
    from html import escape

    def height(score):
        return f"{220 - 200 * score:.1f}"

    drawn = "".join(
        f'<text x="25" y="{224 - 200 * y}">{y:g}</text><line x1="55" y1="{height(y)}" x2="245" y2="{height(y)}" stroke="#eee"/>'
        for y in (0, 0.5, 1)
    )
    for t in tasks:
        way = "up" if t["new"] > t["old"] else "down" if t["new"] < t["old"] else "same"
        title = f"<title>{escape(t['id'])}: {t['old']:.2f} to {t['new']:.2f}</title>"
        drawn += f'<line class="{way}" x1="60" y1="{height(t["old"])}" x2="240" y2="{height(t["new"])}" stroke-width="1.5" stroke-opacity=".6">{title}</line>'
    return f'<svg width="300" height="250" role="img"><text x="55" y="12">{name}: old</text><text x="222" y="12">new</text>{drawn}</svg>'


def _interval_svg(result):
    """Return a drawing of the differences and their intervals on one scale around zero."""
    rows = [*result["groups"].items(), *([("overfit gap", result["gap"])] if result["gap"] else [])]
    bounded = [(name, row) for name, row in rows if math.isfinite(row["low"])]
    widest = max([abs(row[side]) for _, row in bounded for side in ("low", "high")] + [0.1])
    bottom, drawn = 40 + 26 * len(bounded), ""
    for number, (name, row) in enumerate(bounded):
        low, middle, high = (330 + 220 * row[key] / widest for key in ("low", "difference", "high"))
        y = 30 + 26 * number
        drawn += (
            f'<text x="0" y="{y + 4}">{name}</text><line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="#555" stroke-width="2"/>'
        )
        drawn += f'<circle cx="{middle:.1f}" cy="{y}" r="4" fill="#222"/>'
    zero = f'<line x1="330" x2="330" y1="14" y2="{bottom}" stroke="#999" stroke-dasharray="4"/><text x="301" y="11">no change</text>'
    return f'<p><svg width="620" height="{bottom}" role="img">{zero}{drawn}</svg></p>'


def junit_xml(run):
    """Return a run as JUnit XML: a suite a group, a case a task, failed criteria as failure, errors as error."""
    from xml.etree import ElementTree

    def clean(text):
        return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)

    root = ElementTree.Element("testsuites", name="eval_suite")
    for group in run["scores"]:
        results = [r for r in run["tasks"] if r["group"] == group]
        suite = ElementTree.SubElement(root, "testsuite", name=group, tests=str(len(results)))
        for attribute, status in (("failures", "failed"), ("errors", "error")):
            suite.set(attribute, str(sum(r["status"] == status for r in results)))
        for result in results:
            case = ElementTree.SubElement(suite, "testcase", classname=group, name=result["id"], time=f"{result['seconds']:.3f}")
            if result["exit_status"]:
                properties = ElementTree.SubElement(case, "properties")
                ElementTree.SubElement(properties, "property", name="exit_status", value=str(result["exit_status"]))
            if result["status"] != "passed":
                kind, wrong = "error" if result["status"] == "error" else "failure", what_is_wrong(result)
                ElementTree.SubElement(case, kind, message=clean(wrong[0])).text = clean("\n".join(wrong))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def results_html(run):
    """Return a run as one HTML page: the summary and the table."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), record=True, width=PIPED_WIDTH, highlight=False)
    console.print(summary_line(run), results_table(run), markup=False, sep="\n")
    return console.export_html(clear=True)


# ----------------------------------------------------------------------------------------------
# Command line
# ----------------------------------------------------------------------------------------------


def positive(kind):
    """Return an argparse type for a number (int or float) above zero."""

    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"must be a {'whole ' if kind is int else ''}number above 0, not {text!r}")
        return value

    return convert


def flag_parser(name, manual):
    """Return the argparse parser of a script whose help is its docstring, the manual."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=name, usage=f"{name} [flags]; --help shows them", add_help=False, formatter_class=formatter)
    parser.add_argument("-h", "--help", action="version", version=(manual or "").strip())  # -OO takes it away
    return parser


def parse_args(argv):
    parser = flag_parser("eval_suite.py", __doc__)
    for flag in ("--fast", "--capture", "--score", "--audit"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--agent", "--tasks", "--json", "--junit", "--html", "--log-dir"):
        parser.add_argument(flag)
    parser.add_argument("--generated", nargs="?", const=GENERATED_FILE)
    parser.add_argument("--base", default=BASE)
    parser.add_argument("--timeout", type=positive(float), default=900.0)
    parser.add_argument("--jobs", type=positive(int), default=1)
    parser.add_argument("--repeat", type=positive(int), default=1)
    parser.add_argument("--compare", nargs=2)
    parser.add_argument("--margin", type=float, default=0.0)
    parser.add_argument("--split", choices=("tune", "holdout"))
    parser.add_argument("--holdout", type=positive(int), default=4)
    parser.add_argument("--split-seed", default="0")
    args = parser.parse_args(argv)

    if not args.base.strip():
        parser.error("--base is empty; name the folder of the reports")
    args.base = args.base if args.base.startswith("~") else os.path.abspath(args.base)
    alone = [flag for flag in ("fast", "audit", "compare") if getattr(args, flag)]
    if args.agent is not None and alone:
        parser.error(f"--agent runs the agent and --{alone[0]} runs none; give one of them")
    if len(alone) > 1:
        parser.error(f"--{alone[0]} and --{alone[1]} are two different jobs; give one of them")
    if alone and (args.capture or args.repeat > 1):
        parser.error(f"--{'capture' if args.capture else 'repeat'} needs an agent to run; --{alone[0]} runs none")
    if args.split and args.generated is None:
        parser.error("--split divides the generated tasks; add --generated")
    if not 0 <= args.margin < 1:
        parser.error(f"--margin must be a number from 0 to below 1, not {args.margin}")
    if (args.audit or args.compare) and (args.score or args.junit or args.audit and args.html):
        parser.error("--audit goes with --json only, --compare with --json and --html")
    args.agent = None if alone else args.agent if args.agent is not None else os.environ.get("EVAL_AGENT") or None
    if not alone and args.agent is None:
        parser.error(
            "nothing to score: give an agent (--agent 'my-agent {task}', or EVAL_AGENT), or --fast to check the reports that exist"
        )
    if args.agent is not None:
        _check_agent(args.agent, parser)
        try:
            os.makedirs(os.path.expanduser(args.log_dir or "."), exist_ok=True)
        except OSError as error:
            parser.error(f"--log-dir: {args.log_dir} can't be made: {error.strerror}")
    if args.compare and (args.generated is not None or args.tasks is not None):
        parser.error("--compare takes the tasks that both files have; --generated and --tasks have no say")
    taken = {_resolved(path) for path in [args.generated, *(args.compare or ())] if path}
    for flag in ("json", "junit", "html"):
        path = getattr(args, flag)
        if path is None:
            continue
        place = os.path.expanduser(path)
        folder = os.path.dirname(os.path.abspath(place))
        if not path or os.path.isdir(place) or not (is_device(place) or os.access(folder, os.W_OK | os.X_OK)):
            parser.error(f"--{flag}: {path!r} is no file that can be written; name one in a folder that exists")
        if _resolved(path) in taken and not is_device(place):
            parser.error(f"--{flag}: {path!r} is a file that this run reads or writes already; name another")
        taken.add(_resolved(path))
    return args


def _check_agent(agent, parser):
    """Refuse an agent command line that could not start for any task."""
    import shlex
    import shutil

    try:
        words = shlex.split(agent)
    except ValueError as error:
        parser.error(f"--agent: {agent!r} can't be split into words: {error}")
    if not words:
        parser.error("--agent is empty; give a command line such as 'my-agent {task}'")
    if re.search(r"\{(?:task|output)\}", words[0]):
        parser.error(f"--agent: the first word, {words[0]!r}, must name a program; a task's text is never run")
    program = os.path.expanduser(words[0])
    if shutil.which(program) is None and os.path.exists(program):
        parser.error(
            f"--agent: {words[0]!r} is no program that can be run; see its permissions, or name what runs it, as in 'python {words[0]}'"
        )
    if shutil.which(program) is None:
        parser.error(f"--agent: there is no program {words[0]!r} on the PATH; give its full path, or install it")


def select_tasks(args):
    """Return the tasks that the arguments ask for; raises SuiteError."""
    tasks = fixed_suite(args.base)
    if args.generated is not None:
        generated = load_generated_suite(args.generated, args.base)
        if args.split:
            held_out = held_out_personas(generated, args)
            generated = [t for t in generated if (persona_of(t["id"]) in held_out) == (args.split == "holdout")]
        tasks += generated
    if args.tasks is None:
        return tasks
    hint = "" if args.generated is not None else "; --generated adds the generated ones"
    return pick({task["id"]: task for task in tasks}, args.tasks, "--tasks: no task", hint)


def pick(known, ids, refusal, hint=""):
    """Return the values of `known` (a dict by id) that `ids` names, separated by commas; raises SuiteError for an unknown one."""
    wanted = [id for id in re.split(r"[,\s]+", ids) if id]
    unknown = [id for id in wanted if id not in known]
    if unknown or not wanted:
        named = ", ".join(map(repr, unknown)) or "named"
        raise SuiteError([f"{refusal} {named}; there are {_one_line(', '.join(known), 300)}{hint}"])
    return [known[id] for id in dict.fromkeys(wanted)]


def persona_of(task_id):
    """Return the id of the persona that a generated task belongs to: P_devops of P_devops_3."""
    return task_id.rpartition("_")[0]


def held_out_personas(tasks, args):
    """Return the ids of the personas held out: the first by sha256 of seed and id; raises SuiteError where none is left."""
    personas = {persona_of(task["id"]) for task in tasks}
    if args.holdout >= len(personas):
        raise SuiteError([f"--holdout {args.holdout} leaves none to tune on; the generated tasks have {_count(len(personas), 'persona')}"])
    ordered = sorted(personas, key=lambda id: _digest(f"{args.split_seed}:{id}"))
    return set(ordered[: args.holdout])


def split_record(tasks, args):
    """Return what the results say of the split that was run, with the fingerprint by which runs are matched."""
    personas = sorted({persona_of(task["id"]) for task in tasks if task["group"] == "generated"})
    mark = _digest(json.dumps([args.split, personas, args.holdout, args.split_seed]))[:16]
    return {"part": args.split, "personas": personas, "holdout": args.holdout, "seed": args.split_seed, "fingerprint": mark}


def interrupt_on_signals():
    """Let the signals that end a program end it as Ctrl-C does, so that what is done is kept."""
    import signal

    try:
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.default_int_handler)
    except ValueError:
        pass  # not in the main thread, where signals are somebody else's


def ready_streams():
    """Make stdout and stderr take any text, where they are closed or where their encoding lacks a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w")
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
        setattr(sys, name, stream)


def say(text, stream=None):
    """Print lines on stderr, or on `stream`; return False where that fails though somebody would read them.

    Nothing is raised: that nobody reads on (`| head -1`), or that a disk is full, is no reason to end a run.
    """
    stream = stream or sys.stderr
    try:
        stream.write(f"{text}\n")  # in one piece, for threads speak too
        stream.flush()
    except OSError as error:
        # What is left of it goes nowhere, or it would fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            say(f"stdout can't be written: {error.strerror}")
            return False
    return True


def main(argv=None):
    """Run the command line; return the exit status (see --help)."""
    ready_streams()
    args = parse_args(argv)
    try:
        import pyromark  # noqa: F401  (before an agent is run for an hour)
        import rich  # noqa: F401
    except ImportError as error:
        say(f"eval_suite.py: {error}; pip install -r requirements.txt, and run with the Python of that environment")
        return 2
    try:
        if args.compare:
            return _show_comparison(compare_runs(read_run(args.compare[0]), read_run(args.compare[1]), args.margin), args)
        tasks = select_tasks(args)
        if args.audit:
            return _show_audit([audit_task(task) for task in tasks], args)
        interrupt_on_signals()
        run = _run_with_progress(tasks, args)
        if args.split:
            run["split"] = split_record(tasks, args)
        return _show(run, len(tasks), args)
    except SuiteError as error:
        say("\n".join(f"eval_suite.py: {fault}" for fault in error.faults))
        return 2
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def _run_with_progress(tasks, args):
    """Run the tasks, telling on stderr how far they are: a bar on a terminal, else a line a task."""
    options = {"timeout": args.timeout, "jobs": args.jobs, "capture": args.capture, "log_dir": args.log_dir, "repeat": args.repeat}
    if args.fast:
        return score_suite(tasks)
    if not sys.stderr.isatty():
        return score_suite(tasks, args.agent, on_result=lambda r: say(_progress_line(r)), **options)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    counts, waiting = dict.fromkeys(STATUS_STYLES, 0), [task["id"] for task in tasks]
    with Progress(*columns, console=console_for(sys.stderr), transient=True) as progress:
        bar = progress.add_task(waiting[0], total=len(tasks), counts="")

        def on_result(result):
            counts[result["status"]] += 1
            waiting.remove(result["id"])
            told = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
            progress.update(bar, advance=1, counts=told, description=", ".join(waiting[: args.jobs]) or "done")

        return score_suite(tasks, args.agent, on_result=on_result, **options)


def _progress_line(result):
    return f"{result['id']}: {result['status']}, score {result['score']:.3f}, {result['seconds']:.1f} s" + (
        f" ({result['error']})" if result["error"] else ""
    )


def _show(run, asked, args):
    """Write and print a run; return the exit status."""
    written = _write_outputs(args, {"json": lambda: as_json(run), "junit": lambda: junit_xml(run), "html": lambda: results_html(run)})
    stream = sys.stderr if args.score else sys.stdout
    printed = say(f"{rendered(results_table(run), stream)}\n{summary_line(run)}", stream)
    if run["interrupted"]:
        say(f"interrupted: {len(run['tasks'])} of {_count(asked, 'task')} done")
    elif args.score:
        printed = say(f"{run['score']:.3f}", sys.stdout)
    status = 130 if run["interrupted"] else 0 if all(r["status"] == "passed" for r in run["tasks"]) else 1
    return status if written and printed else 2


def _show_audit(rows, args):
    """Write and print an audit; return the exit status: 1 where a task is flagged."""
    flagged = [row for row in rows if row["flags"]]
    unproved = sum(c["proof"] == "unproved" for row in rows for c in row["criteria"])
    floors = [max(row["floors"].values()) for row in rows if row["floors"]]
    summary = {"tasks": len(rows), "flagged": len(flagged), "unproved": unproved}
    told = (
        f"{_count(len(rows), 'task')}: {len(rows) - len(flagged)} sound, {len(flagged)} flagged, {_count(unproved, 'criterion').replace('criterions', 'criteria')} "
        f"unproved; highest floor of a null agent {max(floors, default=0.0):.2f}"
    )
    written = _write_outputs(args, {"json": lambda: as_json(summary | {"audit": rows})})
    printed = say(f"{rendered(audit_table(rows), sys.stdout)}\n{told}", sys.stdout)
    return (1 if flagged else 0) if written and printed else 2


def _show_comparison(result, args):
    """Write and print a comparison; return the exit status that goes with its verdict."""
    written = _write_outputs(args, {"json": lambda: as_json(result), "html": lambda: comparison_html(result)})
    printed = say("\n".join([rendered(comparison_table(result), sys.stdout), *comparison_lines(result)]), sys.stdout)
    return EXIT_STATUS[result["verdict"]] if written and printed else 2


def as_json(data):
    """Return data as indented JSON; a number that JSON does not know, an unbounded interval's end, becomes null."""

    def finite(value):
        if isinstance(value, dict):
            return {key: finite(item) for key, item in value.items()}
        if isinstance(value, list):
            return [finite(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(finite(data), indent=2, ensure_ascii=False) + "\n"


def _write_outputs(args, writers):
    """Write each output that was asked for; return whether all could be written."""
    written = True
    for flag, text in writers.items():
        path = getattr(args, flag)
        if path is not None:
            try:
                write_whole(path, text())
            except OSError as error:
                say(f"eval_suite.py: --{flag}: {path} cannot be written: {error.strerror}")
                written = False
    return written


if __name__ == "__main__":
    sys.exit(main())
