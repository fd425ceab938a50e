/**
 * Help texts, made of the table: what it does,
 * examples first, then arguments and flags.
 */
import type { Command, Example, FlagSpec } from './command.ts'
import { argumentWords, commandName, dryRunFlag, globalFlags } from './command.ts'
import { pad, wrap } from './output/text.ts'

const nounSummaries: Readonly<Record<string, string>> = {
  server: 'Run and prepare a server',
  config: 'Look at the configuration of a server',
  job: 'Define what runs',
  schedule: 'Say when it runs',
  occurrence: 'What became of each planned time',
  calendar: 'Holidays and other days that schedules leave out or keep to',
  run: 'See what ran, and run on demand',
  tenant: 'Tenants of a server',
  key: 'API keys',
  cluster: 'The processes of the installation, and what is wrong',
  replan: 'What newer zone data did to future times',
  context: 'Which server and key this command line uses',
}

/** The nouns in the order of the table. */
export function nounsOf(table: readonly Command[], withHidden: boolean): readonly string[] {
  const shown = table.filter((command) => withHidden || command.hidden !== true)
  return [...new Set(shown.map((command) => command.noun))]
}

export const nounSummary = (table: readonly Command[], noun: string): string =>
  nounSummaries[noun] ?? table.find((command) => command.noun === noun)?.summary ?? ''

type Row = readonly [string, string]

function rowsOf(rows: readonly Row[], columns: number): string[] {
  const width = Math.min(32, Math.max(0, ...rows.map(([left]) => left.length)))
  return rows.flatMap(([left, right]) => {
    const [first = '', ...more] = wrap(right, Math.max(24, columns - width - 4))
    const indented = more.map((line) => `${' '.repeat(width + 4)}${line}`)
    if (left.length > width) return [`  ${left}`, `${' '.repeat(width + 4)}${first}`, ...indented]
    return [`  ${pad(left, width)}  ${first}`, ...indented]
  })
}

/** "-o, --output <format>". */
export function flagTitle(flag: FlagSpec): string {
  const short = flag.short === undefined ? '' : `-${flag.short}, `
  const method = flag.method === true ? '[method] ' : ''
  return `${short}--${flag.name}${flag.value === undefined ? '' : ` ${method}<${flag.value}>`}`
}

/** Summary with choices and "repeatable". */
export function flagWords(flag: FlagSpec): string {
  const choices = flag.choices === undefined ? '' : `: ${flag.choices.join(', ')}`
  return `${flag.summary}${choices}${flag.repeat === true ? ' (may be repeated)' : ''}`
}

const flagRows = (flags: readonly FlagSpec[]): Row[] =>
  flags.map((flag) => [flagTitle(flag), flagWords(flag)])

/** "belfry schedule create [name] [flags]". */
export function usageLine(command: Command): string {
  const args = (command.arguments ?? []).map(argumentWords)
  return ['belfry', commandName(command), ...args, '[flags]'].join(' ')
}

const exampleLines = (examples: readonly Example[]): string[] =>
  examples.flatMap((example, index) => [
    ...(index === 0 ? [] : ['']),
    `  # ${example.words}`,
    `  $ ${example.command}`,
  ])

const page = (...sections: readonly (readonly string[])[]): string =>
  `${sections
    .filter((section) => section.length > 0)
    .map((section) => section.join('\n'))
    .join('\n\n')}\n`

const titled = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [title, ...lines]

export function commandHelp(command: Command, columns: number): string {
  const changes = command.effect === 'change' || command.effect === 'localChange'
  const own = [...(command.flags ?? []), ...(changes ? [dryRunFlag] : [])]
  const args: Row[] = (command.arguments ?? []).map((argument) => [argument.name, argument.summary])
  return page(
    [
      `${command.summary}.`,
      ...(command.details === undefined ? [] : ['', ...wrap(command.details, columns)]),
    ],
    titled('Examples:', exampleLines(command.examples)),
    titled('Usage:', [`  ${usageLine(command)}`]),
    titled('Arguments:', rowsOf(args, columns)),
    titled('Flags:', rowsOf(flagRows(own), columns)),
    titled(
      'Flags of every command:',
      rowsOf([...flagRows(globalFlags), ['-h, --help', 'Show this help']], columns),
    ),
  )
}

export function groupHelp(noun: string, rows: readonly Command[], columns: number): string {
  const examples = rows.map((row) => row.examples[0]).slice(0, 3)
  const verbs: Row[] = rows.map((row) => [row.verb ?? '', row.summary])
  return page(
    [`${nounSummaries[noun] ?? noun}.`],
    titled('Examples:', exampleLines(examples)),
    titled('Usage:', [`  belfry ${noun} <verb> [flags]`]),
    titled('Verbs:', rowsOf(verbs, columns)),
    [`Run \`belfry ${noun} <verb> --help\` for its flags.`],
  )
}

const rootExamples: readonly Example[] = [
  { words: 'Start Belfry on this machine', command: 'belfry dev' },
  {
    words: 'Call a URL every five minutes',
    command: 'belfry schedule create --every 5m --http POST https://example.com/hook',
  },
  { words: 'See what ran', command: 'belfry run list' },
]

export function rootHelp(table: readonly Command[], columns: number): string {
  const nouns: Row[] = nounsOf(table, false).map((noun) => [noun, nounSummary(table, noun)])
  return page(
    ['Belfry fires jobs on time, calls their handlers, and shows what happened.'],
    titled('Examples:', exampleLines(rootExamples)),
    titled('Usage:', ['  belfry <noun> <verb> [flags]']),
    titled('Nouns:', rowsOf(nouns, columns)),
    titled(
      'Flags of every command:',
      rowsOf(
        [...flagRows(globalFlags), ['-h, --help', 'Show help'], ['-V, --version', 'Show the version']],
        columns,
      ),
    ),
    [
      'Exit codes: 0 ok, 1 failed, 2 usage, 4 not allowed,',
      '5 the run waited for did not succeed, 6 the wait timed out.',
      'Run `belfry <noun> --help` for its verbs.',
    ],
  )
}
