// Words that do not belong in the repository: marks of unfinished work, paths of somebody's machine, hosts of
// package registries and mentions of who or what wrote the code. The words are put together from pieces, so
// that this file does not report itself.
import { type Rule, type SourceFile, type Violation } from '../lib/source-file.ts'

const unfinished = ['TO' + 'DO', 'FIX' + 'ME', 'XX' + 'X', 'HA' + 'CK', 'W' + 'IP']
const unfinishedWord = 'imple' + 'mented'
const homes = 'ho' + 'me'
const machinePaths = ['/work/(?:main|shared|scratch|steering|\\.library)', '/fa' + 'rm/', '/Us' + 'ers/\\w']
const registries = ['registry\\.' + 'npmjs', 'repo1?\\.' + 'maven', 'py' + 'pi\\.org', 'proxy\\.' + 'golang']
const authors = ['sub' + 'agent', 'C' + 'EO', 'clau' + 'de', 'anthro' + 'pic', 'chat' + 'gpt', 'co' + 'pilot']

const groups: readonly { readonly pattern: RegExp; readonly what: string }[] = [
  {
    pattern: new RegExp(`\\b(?:${unfinished.join('|')})\\b|[Nn]ot ${unfinishedWord}\\b(?! by)`),
    what: 'a mark of unfinished work; do it or write an issue',
  },
  {
    pattern: new RegExp(`${machinePaths.join('|')}|/${homes}/(?!belfry)\\w`),
    what: "a path of somebody's machine",
  },
  { pattern: new RegExp(registries.join('|'), 'i'), what: "a package registry's host" },
  {
    pattern: new RegExp(`\\b(?:${authors.join('|')})s?\\b`, 'i'),
    what: 'a mention of who or what wrote it',
  },
]

/** What tools write, and cases that quote what other systems say. */
const exempt = /^package-lock\.json$|\.generated\.|^test\/cases\//

function wordsIn(file: SourceFile): Violation[] {
  return file.text.split('\n').flatMap((line, index) =>
    groups.flatMap(({ pattern, what }) => {
      const match = pattern.exec(line)
      return match === null ? [] : [{ path: file.path, line: index + 1, message: `"${match[0]}" is ${what}` }]
    }),
  )
}

export const words: Rule = {
  name: 'no marks of unfinished work, machine paths, registry hosts or authors',
  check: (files) => files.filter((file) => !exempt.test(file.path)).flatMap(wordsIn),
}
