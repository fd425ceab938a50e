// Limits on size: files of 400 lines, functions of 70, lines of 110 characters. Generated files are exempt by
// name, a line that holds a URL may be as long as the URL needs, and in tests the callback of a `describe` is
// a folder of tests rather than a function. SQL migrations are held to no length.
import {
  isCode,
  isGenerated,
  isTest,
  type Rule,
  type SourceFile,
  type Violation,
} from '../lib/source-file.ts'
import { lineAt, violation } from '../lib/source-file.ts'
import { dottedName, isNode, type Node, walk } from '../lib/syntax.ts'

const fileLinesMax = 400
const functionLinesMax = 70
const lineLengthMax = 110

const functionTypes = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])
const suiteCall = /^(?:describe|suite)(?:\.|$|Needing$)/

function longFile(file: SourceFile): Violation[] {
  const count = file.text.replace(/\n$/, '').split('\n').length
  if (count <= fileLinesMax) return []
  return [{ path: file.path, line: count, message: `${count} lines; split it, ${fileLinesMax} is the limit` }]
}

function longLines(file: SourceFile): Violation[] {
  return file.text.split('\n').flatMap((line, index) => {
    if (line.length <= lineLengthMax || /https?:\/\//.test(line)) return []
    return [
      {
        path: file.path,
        line: index + 1,
        message: `${line.length} characters; the limit is ${lineLengthMax}`,
      },
    ]
  })
}

function calleeName(call: Node): string | undefined {
  // `describe.each(table)(title, body)` and `describe.skipIf(x)(title, body)` call the result of a call.
  const callee = call['callee']
  return isNode(callee) && callee.type === 'CallExpression' ? calleeName(callee) : dottedName(callee)
}

function isSuite(node: Node): boolean {
  return node.type === 'CallExpression' && suiteCall.test(calleeName(node) ?? '')
}

/** Functions that only hold tests: the body of a suite, or an exported suite that consists of such calls. */
function holdsTests(node: Node, parent: Node | undefined): boolean {
  if (parent !== undefined && isSuite(parent)) return true
  const body = isNode(node['body']) ? node['body']['body'] : undefined
  const statements = Array.isArray(body) ? body : []
  return statements.some(
    (statement) => isNode(statement) && isNode(statement['expression']) && isSuite(statement['expression']),
  )
}

function longFunctions(file: SourceFile): Violation[] {
  const found: Violation[] = []
  walk(file, (node, ancestors) => {
    if (!functionTypes.has(node.type)) return
    const lines = lineAt(file.text, node.end) - lineAt(file.text, node.start) + 1
    if (lines <= functionLinesMax || (isTest(file.path) && holdsTests(node, ancestors.at(-1)))) return
    found.push(violation(file, node.start, `a function of ${lines} lines; the limit is ${functionLinesMax}`))
  })
  return found
}

export const lengths: Rule = {
  name: `files <= ${fileLinesMax} lines, functions <= ${functionLinesMax}, lines <= ${lineLengthMax} wide`,
  check: (files) =>
    files
      .filter((file) => isCode(file) && !isGenerated(file.path))
      .flatMap((file) => [...longFile(file), ...longLines(file), ...longFunctions(file)]),
}
