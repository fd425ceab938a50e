// The parser over the table of commands: every example parses, --http takes its method wherever it stands,
// misspelt words get a suggestion, and no input makes it fail in any other way than a usage error.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { joinMethods, parseArguments } from '../../../packages/cli/src/arguments.ts'
import { type Command, commandName, flagsOf } from '../../../packages/cli/src/command.ts'
import { commandTable } from '../../../packages/cli/src/command-table.ts'
import { httpTarget } from '../../../packages/cli/src/commands/handler-flags.ts'
import { UsageError } from '../../../packages/cli/src/exit-codes.ts'

const parse = (argv: readonly string[]) => parseArguments(commandTable, argv, '1.2.3', 80)
const http = new Set(['--http'])

/** What parsing comes to; any error but a usage error goes through. */
function kindOf(argv: readonly string[]): string {
  try {
    return parse(argv).kind
  } catch (error) {
    if (error instanceof UsageError) return 'usage'
    throw error
  }
}

/** Splits as a shell does, as far as examples need it. */
function words(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '')
}

function argvOf(example: string): string[] {
  const command = example.split('|').at(-1)?.trim() ?? ''
  const all = words(command)
  return all.slice(all.indexOf('belfry') + 1)
}

const rows = commandTable.map((command) => [commandName(command), command] as const)

describe('the table', () => {
  it.each(rows)('%s: its examples parse to itself', (_name, command: Command) => {
    for (const example of command.examples) {
      const parsed = parse(argvOf(example.command))
      expect(parsed.kind === 'run' ? commandName(parsed.command) : parsed.kind).toBe(commandName(command))
    }
  })

  it.each(rows)('%s: flags have one meaning each, and the help names them all', (_name, command: Command) => {
    const names = flagsOf(command).map((flag) => flag.name)
    expect(new Set(names).size).toBe(names.length)
    const help = parse([...commandName(command).split(' '), '--help'])
    for (const name of names) expect(help.kind === 'help' && help.text).toContain(`--${name}`)
  })

  it.each(rows)('%s: its help leads with an example', (_name, command: Command) => {
    const help = parse([...commandName(command).split(' '), '-h'])
    const text = help.kind === 'help' ? help.text : ''
    expect(text.indexOf('Examples:')).toBeGreaterThan(0)
    expect(text.indexOf('Examples:')).toBeLessThan(text.indexOf('Usage:'))
  })

  it('names flags that exist as the source of fields', () => {
    for (const command of commandTable) {
      const names = new Set(flagsOf(command).map((flag) => `--${flag.name}`))
      for (const flag of Object.values(command.fieldFlags ?? {})) {
        expect(names.has(flag) || flag.startsWith('<'), `${commandName(command)} ${flag}`).toBe(true)
      }
    }
  })

  it('offers no secret as the value of a flag', () => {
    // the first names a file; the keys of the others tell runs and events apart, as in the API's fields
    const harmless = [
      'key-file',
      'password-file',
      'public-key',
      'key',
      'dedupe-key',
      'concurrency-key',
      'key-limit',
      'rate-key',
    ]
    const names = commandTable.flatMap(flagsOf).map((flag) => flag.name)
    const suspect = names.filter((name) => /key|token|secret|password/.test(name))
    expect(suspect.filter((name) => !harmless.includes(name))).toEqual([])
  })
})

describe('--http', () => {
  it('takes its method and leaves the name behind it', () => {
    for (const argv of [
      ['schedule', 'create', 'nightly', '--http', 'POST', 'https://a', '--every', '5m'],
      ['schedule', 'create', '--http', 'POST', 'https://a', 'nightly', '--every', '5m'],
      ['schedule', 'create', '--http=POST', 'https://a', '--every', '5m', 'nightly'],
    ]) {
      const parsed = parse(argv)
      expect(parsed).toMatchObject({ kind: 'run', args: ['nightly'] })
      expect(parsed.kind === 'run' && parsed.flags.get('http')).toBe('POST https://a')
    }
  })

  it('takes a word before a URL for a method, so that its fault is told', () => {
    for (const [argv, value] of [
      [['--http', 'GETT', 'https://a'], 'GETT https://a'],
      [['--http=PURGE', 'https://a'], 'PURGE https://a'],
    ] as const) {
      const parsed = parse(['job', 'create', 'x', ...argv])
      expect(parsed.kind === 'run' && parsed.flags.get('http')).toBe(value)
    }
    expect(() => httpTarget('GETT https://a')).toThrow(
      '"GETT" is not a method that is called; did you mean GET?',
    )
    expect(() => httpTarget('PURGE https://a')).toThrow(
      /"PURGE" is not a method .* use one of GET, HEAD, POST/,
    )
    expect(() => httpTarget('GET a b')).toThrow('is not a target')
  })

  it('takes a URL alone', () => {
    const parsed = parse(['schedule', 'create', '--http', 'https://a', 'nightly', '--every', '5m'])
    expect(parsed).toMatchObject({ kind: 'run', args: ['nightly'] })
  })

  it('leaves every line alone that has no method, and everything behind --', () => {
    const token = fc.constantFrom(
      '--http',
      'a.example',
      'https://x',
      '--',
      '--every',
      '5m',
      '--http=https://y',
    )
    fc.assert(
      fc.property(fc.array(token), (argv) => {
        expect(joinMethods(argv, http)).toEqual(argv)
      }),
    )
    expect(joinMethods(['--', '--http', 'GET', 'u'], http)).toEqual(['--', '--http', 'GET', 'u'])
  })
})

describe('flags', () => {
  it('takes those of every command before, between and behind the words', () => {
    for (const argv of [
      ['-o', 'json', 'run', 'list'],
      ['run', '-o', 'json', 'list'],
      ['run', 'list', '-o', 'json'],
      ['run', 'list', '-ojson'],
      ['-o', 'yaml', 'run', 'list', '--output=json'],
    ]) {
      const parsed = parse(argv)
      expect(parsed.kind === 'run' && parsed.flags.get('output')).toBe('json')
    }
  })

  it('collects what may be repeated, in order', () => {
    const parsed = parse([
      'job',
      'create',
      'a',
      '--http',
      'https://a',
      '--header',
      'B: 1',
      '--header',
      'A: 2',
    ])
    expect(parsed.kind === 'run' && parsed.flags.get('header')).toEqual(['B: 1', 'A: 2'])
  })

  it('keeps a value as it is, whatever it looks like', () => {
    const value = fc.string({ minLength: 1 }).filter((text) => !flagWords.has(text))
    fc.assert(
      fc.property(value, (text) => {
        const parsed = parse(['schedule', 'pause', 'nightly', '--reason', text])
        expect(parsed.kind === 'run' && parsed.flags.get('reason')).toBe(text)
        const joined = parse(['schedule', 'pause', 'nightly', `--reason=${text}`])
        expect(joined.kind === 'run' && joined.flags.get('reason')).toBe(text)
      }),
    )
  })

  it('reads --no-color as being off', () => {
    expect(parse(['run', 'list'])).toMatchObject({ kind: 'run' })
    const flags = (argv: string[]) => {
      const parsed = parse(argv)
      return parsed.kind === 'run' ? parsed.flags.get('no-color') : 'none'
    }
    expect(flags(['run', 'list'])).toBeUndefined()
    expect(flags(['run', 'list', '--no-color'])).toBe(true)
    expect(flags(['--no-color', 'run', 'list'])).toBe(true)
  })
})

const flagWords = new Set(commandTable.flatMap(flagsOf).map((flag) => `--${flag.name}`))

describe('mistakes', () => {
  it.each([
    [['shedule', 'list'], /unknown command 'shedule'; did you mean schedule\?/],
    [['schedule', 'lst'], /did you mean list\?/],
    [['run', 'list', '--limt', '5'], /unknown option '--limt'; did you mean --limit\?/],
    [['run', 'list', '--limit'], /argument missing/],
    [['run', 'list', '--limit', '--all'], /--limit needs a value, but --all follows it/],
    [['run', 'list', 'extra'], /too many arguments/],
    [['run', 'get'], /missing required argument 'run'/],
    [['run', 'list', '-o', 'xml'], /"xml" is not one of table, json/],
    [['schedule', 'create', '--overlap', 'maybe'], /not one of skip, allow/],
  ])('%j', (argv, words) => {
    expect(() => parse(argv)).toThrow(words)
    expect(() => parse(argv)).toThrow(UsageError)
  })

  it('answers with a command, help, the version or a usage error, whatever is typed', () => {
    const known = fc.constantFrom(
      ...commandTable.flatMap((command) => commandName(command).split(' ')),
      ...flagWords,
      '-o',
      '-h',
      '-q',
      '--',
      '-',
      'json',
      'POST',
    )
    const token = fc.oneof({ weight: 4, arbitrary: known }, fc.string({ unit: 'binary', maxLength: 8 }))
    fc.assert(
      fc.property(fc.array(token, { maxLength: 8 }), (argv) => {
        expect(['run', 'help', 'version', 'usage']).toContain(kindOf(argv))
      }),
      { numRuns: 300 },
    )
  })

  it('hides what is hidden', () => {
    const root = parse([])
    expect(root.kind === 'help' && root.text).not.toContain('demo')
    expect(parse(['demo', '--for', '5'])).toMatchObject({ kind: 'run' })
  })
})

describe('a verb that may be left out', () => {
  it('is start', () => {
    for (const argv of [
      ['server'],
      ['server', '--roles', 'worker'],
      ['server', 'start', '--roles', 'worker'],
    ]) {
      const parsed = parse(argv)
      expect(parsed.kind === 'run' && commandName(parsed.command)).toBe('server start')
    }
    expect(parse(['server', '--help'])).toMatchObject({ kind: 'help', asked: true })
  })

  it('gets a suggestion when it is misspelt', () => {
    expect(() => parse(['server', 'migrat'])).toThrow("unknown command 'migrat'; did you mean migrate?")
  })
})
