/**
 * The process around the command line: its streams, Ctrl-C, and a reader that goes away. The exit code is
 * set rather than forced, so that what was written reaches its reader.
 */
import { text } from 'node:stream/consumers'
import { exitCodes } from './exit-codes.ts'
import { runCli } from './run-cli.ts'

// `belfry run list | head -1`: the reader is gone and there is nothing left to do.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed)
})
process.stderr.on('error', () => undefined)

const leave = (): void => process.exit(exitCodes.interrupted)
process.on('SIGINT', leave)

/** The first SIGINT or SIGTERM asks for a stop; the second leaves at once. */
function stopSignal(): AbortSignal {
  process.off('SIGINT', leave)
  const stop = new AbortController()
  const onSignal = (): void => (stop.signal.aborted ? leave() : stop.abort())
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return stop.signal
}

process.exitCode = await runCli(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  readStdin: () => text(process.stdin),
  stopSignal,
})
