/**
 * Colour, where it is wanted: on a terminal, unless
 * NO_COLOR, `--no-color` or TERM=dumb says otherwise.
 */
import { styleText } from 'node:util'
import type { Environment, Stream } from '../io.ts'

export type Tone = 'good' | 'bad' | 'busy' | 'faint' | 'strong'
export type Paint = (text: string, tone: Tone) => string

const styles = { good: 'green', bad: 'red', busy: 'yellow', faint: 'dim', strong: 'bold' } as const

/** Whether a stream gets colour. FORCE_COLOR gives it to pipes too. */
export function wantsColor(stream: Stream, env: Environment, noColor: boolean): boolean {
  if (noColor || (env['NO_COLOR'] ?? '') !== '') return false
  if ((env['FORCE_COLOR'] ?? '0') !== '0') return true
  return stream.isTTY === true && env['TERM'] !== 'dumb'
}

export function painter(color: boolean): Paint {
  if (!color) return (text) => text
  return (text, tone) => styleText(styles[tone], text, { validateStream: false })
}

const tones: Readonly<Record<string, Tone>> = {
  succeeded: 'good',
  active: 'good',
  ran: 'good',
  failed: 'bad',
  timed_out: 'bad',
  lost: 'bad',
  missed: 'bad',
  upstream_failed: 'bad',
  running: 'busy',
  started: 'busy',
  paused: 'busy',
  waiting_for_dependencies: 'busy',
  skipped: 'busy',
  canceled: 'busy',
}

/** The tone of a state or outcome; the word itself always stands beside it. */
export const toneOf = (state: string): Tone | undefined => tones[state]
