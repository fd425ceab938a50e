/**
 * The reference page of the command line, made of the
 * command table; `docs/reference/cli.md` is its output.
 */
import type { Command, FlagSpec } from './command.ts'
import { commandName, dryRunFlag, globalFlags } from './command.ts'
import { flagTitle, flagWords, nounSummary, nounsOf, usageLine } from './help.ts'

const cell = (text: string): string => text.replaceAll('|', '\\|')

function flagTable(flags: readonly FlagSpec[]): string[] {
  if (flags.length === 0) return []
  return [
    '| flag | meaning |',
    '|---|---|',
    ...flags.map((flag) => `| \`${cell(flagTitle(flag))}\` | ${cell(flagWords(flag))} |`),
    '',
  ]
}

function commandSection(command: Command): string[] {
  const changes = command.effect === 'change' || command.effect === 'localChange'
  const args = (command.arguments ?? []).map((argument) => `- \`${argument.name}\`: ${argument.summary}`)
  const examples = command.examples.flatMap((example) => [`# ${example.words}`, example.command])
  return [
    `### belfry ${commandName(command)}`,
    '',
    `${command.summary}.${command.details === undefined ? '' : ` ${command.details}`}`,
    '',
    '```sh',
    ...examples,
    '```',
    '',
    `Usage: \`${usageLine(command)}\``,
    '',
    ...(args.length === 0 ? [] : [...args, '']),
    ...flagTable([...(command.flags ?? []), ...(changes ? [dryRunFlag] : [])]),
  ]
}

const introduction = [
  '# The command line',
  '',
  'Made from the command table in `packages/cli/src`; change it there and run',
  '`npx vitest run test/cli/reference.test.ts -u`.',
  '',
  'Data goes to standard output, words to standard error. `-o json`, `jsonl`, `yaml` and `name` are stable;',
  "tables are for people and may change. In these formats objects are the API's, unchanged, and a failure",
  'prints its problem document.',
  'Arguments that name a job, a schedule or a key take its name or its id.',
  '',
  '| exit code | meaning |',
  '|---|---|',
  '| 0 | ok |',
  '| 1 | failed |',
  '| 2 | called the wrong way, or a value was refused before any server was asked |',
  '| 4 | no valid key, or the key may not do this |',
  '| 5 | the run waited for ended, and not in success |',
  '| 6 | the wait timed out |',
  '| 130 | interrupted |',
  '',
  'Server and key are taken from flags, else from `BELFRY_URL`, `BELFRY_API_KEY` and `BELFRY_CONTEXT`,',
  "else from the current context in `$XDG_CONFIG_HOME/belfry/contexts.yaml`. A context's key is sent to that",
  "context's address only.",
  '',
  '## Flags of every command',
  '',
  ...flagTable(globalFlags),
]

/** The page, as Markdown. */
export function referencePage(table: readonly Command[]): string {
  const sections = nounsOf(table, false).flatMap((noun) => {
    const rows = table.filter((command) => command.noun === noun && command.hidden !== true)
    return [`## ${noun}`, '', `${nounSummary(table, noun)}.`, '', ...rows.flatMap(commandSection)]
  })
  return `${[...introduction, ...sections].join('\n').trimEnd()}\n`
}
