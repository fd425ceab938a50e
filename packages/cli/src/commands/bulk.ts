/**
 * What commands that act on many share: first the preview; without --yes it stays with that, and says so by
 * the exit code. With --yes no more is taken than the preview counted.
 */
import type { Call, FlagSpec } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'
import type { Shape } from '../output/printer.ts'

export const yesFlag: FlagSpec = {
  name: 'yes',
  short: 'y',
  summary: 'Do it; without, the preview is shown and nothing is done',
}

type Selection = { readonly count: number; readonly exact: boolean }

/**
 * Shows the preview. Answers an exit code where it stays with that, else what the operation may expect to
 * find.
 */
export function afterPreview<S extends Selection>(
  call: Call,
  preview: S,
  shape: Shape<S>,
  what: string,
): { readonly exitCode: number } | { readonly expectedCount: number | undefined } {
  if (!call.flags.on('yes') || call.dryRun) {
    call.printer.one(preview, shape)
    if (preview.count === 0) call.printer.say('Nothing matches.')
    else call.printer.say(`Nothing was done yet. To ${what}, give the same again with --yes`)
    return { exitCode: call.dryRun || preview.count === 0 ? exitCodes.ok : exitCodes.usage }
  }
  return { expectedCount: preview.exact ? preview.count : undefined }
}
