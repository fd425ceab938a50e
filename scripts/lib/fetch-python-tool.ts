// Lets pip put a program into the cache of the tests (test/support/python-tools.ts). It comes under its name
// only when it is all there.
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type PythonTool, pythonToolFolder, pythonWith } from '../../test/support/python-tools.ts'
import { runStep } from './steps.ts'

/** True if it is there. */
export async function fetchPythonTool(tool: PythonTool): Promise<boolean> {
  const folder = pythonToolFolder(tool)
  const unfinished = `${folder}.${process.pid}`
  mkdirSync(dirname(folder), { recursive: true })
  const python = join(unfinished, 'bin', 'python3')
  const pip = [python, '-m', 'pip', 'install', '-q', '--disable-pip-version-check', ...tool.packages] as const
  const fetched =
    (await runStep({
      title: `Python for ${tool.name}`,
      command: ['python3', '-m', 'venv', unfinished],
      limitMinutes: 3,
    })) && (await runStep({ title: tool.name, command: pip, limitMinutes: 10 }))
  try {
    if (fetched) renameSync(unfinished, folder)
  } catch {
    // another process was first
  }
  rmSync(unfinished, { recursive: true, force: true })
  return pythonWith(tool) !== undefined
}
