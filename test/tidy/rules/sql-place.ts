// SQL text lives in packages/server/src/postgres/statements/ (and in migrations/*.sql) and nowhere else under
// packages/*/src, so that every statement can be found, prepared and measured in one place. A string or
// template counts as SQL when it begins like a statement and has that statement's shape; a plain English
// sentence does not.
import { type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'
import { isNode, type Node, walk } from '../lib/syntax.ts'

const home = /^packages\/server\/src\/postgres\/(?:statements|migrations)\//
const code = /^packages\/[^/]+\/src\//

const object = 'table|index|role|user|database|schema|function|policy|extension|type|view|sequence|trigger'
const modifiers = '(?:or\\s+replace\\s+|unique\\s+|materialized\\s+|temp(?:orary)?\\s+|unlogged\\s+)*'

/** A statement's opening, in either case, with enough of its grammar that prose does not match. */
const shapes: readonly RegExp[] = [
  // A call, a star, a parameter or a number right after the verb; or a list with punctuation, then a source.
  /^select\s+(?:[\w.]+\(|\*|\$\d|\d+\b|[^;]*?[(),*=]\s*[^;]*?\bfrom\s+["\w])/i,
  /^select\s+[\w."]+\s+from\s+[\w."]+(?:\s*$|\s+(?:where|order|limit|group|join)\b)/i,
  /^insert\s+into\s+["\w.]+[\s\S]*(?:\bvalues\b|\bselect\b|\()/i,
  /^update\s+["\w.]+\s+(?:as\s+\w+\s+)?set\b/i,
  /^delete\s+from\s+["\w.]+(?:\s*$|\s+(?:where|using|as)\b)/i,
  /^with\s+(?:recursive\s+)?\w+(?:\s*\([^)]*\))?\s+as\s+(?:(?:not\s+)?materialized\s+)?\(/i,
  new RegExp(`^(?:create|alter|drop)\\s+${modifiers}(?:${object})\\s+["\\w.$]`, 'i'),
  /^set\s+(?:local|session|role)\b\s*\S+/i,
  /^truncate\s+table\s+\S/i,
  /^(?:un)?(?:listen|notify)\s+["\w]+\s*(?:$|;|,\s*')/i,
  /^(?:grant|revoke)\b.*\b(?:on|to|from)\b/i,
  /^copy\s+["\w.]+(?:\s*\([^)]*\))?\s+(?:from|to)\s+std/i,
  /^(?:begin|commit|rollback|savepoint\s+\w+|start transaction)\s*;?\s*$/i,
]

/** Alone and in small letters these are ordinary words; as SQL they come in capitals or with a semicolon. */
const ambiguous = /^(?:begin|commit|rollback)$/

function withoutComments(text: string): string {
  return text.replace(/^(?:\s*--[^\n]*\n|\s*\/\*[\s\S]*?\*\/)*/, '').trim()
}

function looksLikeSql(text: string): boolean {
  const statement = withoutComments(text)
  return !ambiguous.test(statement) && shapes.some((shape) => shape.test(statement))
}

/** The text of a string or template literal; a template's inserted values become a name. */
function literalText(node: Node): string | undefined {
  if (node.type === 'Literal') return typeof node['value'] === 'string' ? node['value'] : undefined
  if (node.type !== 'TemplateLiteral' || !Array.isArray(node['quasis'])) return undefined
  return node['quasis'].map(cookedText).join('inserted')
}

function cookedText(quasi: unknown): string {
  const value = isNode(quasi) ? quasi['value'] : undefined
  const cooked = typeof value === 'object' && value !== null && 'cooked' in value ? value.cooked : undefined
  return typeof cooked === 'string' ? cooked : ''
}

function misplaced(file: SourceFile): Violation[] {
  const found: Violation[] = []
  walk(file, (node) => {
    const text = literalText(node)
    if (text === undefined || !looksLikeSql(text)) return
    const start = withoutComments(text).slice(0, 40).replaceAll(/\s+/g, ' ')
    found.push(violation(file, node.start, `SQL outside postgres/statements: "${start}"`))
  })
  return found
}

export const sqlPlace: Rule = {
  name: 'SQL only under postgres/statements and postgres/migrations',
  check: (files) => files.filter((file) => code.test(file.path) && !home.test(file.path)).flatMap(misplaced),
}
