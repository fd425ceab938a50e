// A file as the tidy rules see it: path from the root of the repository, text, and for code the parsed syntax
// tree. Reading and parsing happens once, here; a rule is a pure function from such files to violations, so
// that its own test can feed it samples that never touch the disk.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ParseResult, parseSync } from 'oxc-parser'

export type SourceFile = {
  readonly path: string
  readonly text: string
  /** Only for TypeScript and JavaScript. */
  readonly parsed?: ParseResult
}

export type Violation = { readonly path: string; readonly line: number; readonly message: string }

export type Rule = {
  readonly name: string
  readonly check: (files: readonly SourceFile[]) => Violation[]
}

const skippedFolders = new Set(['node_modules', 'dist', '.git', 'coverage', '.belfry'])
const textFile =
  /\.(?:ts|mjs|js|json|jsonc|md|py|sql|css|html|ya?ml|toml|sh|txt)$|(?:^|\/)(?:\.[^/]+|[A-Z]+|run)$/
const codeFile = /\.(?:ts|mjs|js)$/

export function sourceFile(path: string, text: string): SourceFile {
  if (!codeFile.test(path) || isGenerated(path)) return { path, text }
  const parsed = parseSync(path, text)
  if (parsed.errors.length > 0) throw new Error(`${path} cannot be parsed: ${parsed.errors[0]?.message}`)
  return { path, text, parsed }
}

/** Every text file of the repository, sorted, without what is installed, built or ignored. */
export function readRepository(root: string): SourceFile[] {
  const paths = readdirSync(root, { recursive: false, withFileTypes: true }).flatMap((entry) => {
    if (skippedFolders.has(entry.name)) return []
    return entry.isDirectory() ? filesBelow(root, entry.name) : [entry.name]
  })
  const wanted = paths.filter((path) => textFile.test(path) && !path.endsWith('.tsbuildinfo'))
  return wanted.sort().map((path) => sourceFile(path, readFileSync(join(root, path), 'utf8')))
}

function filesBelow(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (skippedFolders.has(entry.name)) return []
    return entry.isDirectory() ? filesBelow(root, path) : [path]
  })
}

export function isGenerated(path: string): boolean {
  return path.includes('.generated.')
}

export function isCode(file: SourceFile): boolean {
  return file.parsed !== undefined
}

export function isTest(path: string): boolean {
  return path.startsWith('test/')
}

/** 1-based line of an offset in the text. */
export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

export function violation(file: SourceFile, offset: number, message: string): Violation {
  return { path: file.path, line: lineAt(file.text, offset), message }
}
