// Every code file opens with a comment that says what it is for, its place in the whole and its invariants:
// at least two lines, in tests one. A diagram or numbered steps may make it longer.
import { isCode, isTest, type Rule, type SourceFile, violation } from '../lib/source-file.ts'

/** Lines of the comment with words in them, at the very top of the file (after a hashbang). */
function headerLines(file: SourceFile): number {
  const text = file.text.replace(/^#![^\n]*\n/, '').trimStart()
  const [block] = /^(?:\/\*[\s\S]*?\*\/|(?:\/\/[^\n]*(?:\n|$))+)/.exec(text) ?? ['']
  return block.split('\n').filter((line) => /[A-Za-z]/.test(line)).length
}

export const headerComment: Rule = {
  name: 'every code file opens with a header comment',
  check: (files) =>
    files.filter(isCode).flatMap((file) => {
      const least = isTest(file.path) ? 1 : 2
      if (headerLines(file) >= least) return []
      return [
        violation(
          file,
          0,
          `opens with fewer than ${least} lines of comment: say what it is for and its place`,
        ),
      ]
    }),
}
