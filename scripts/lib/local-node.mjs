// Finds the Node 24 that `npm ci` brought along, and makes sure that npm scripts find it too, as
// node_modules/.bin/node. npm links it there by itself, but versions before 11 take the link away again when
// they drop the package of the other platform, which has a command of the same name. Plain JavaScript that
// old Node versions can run.
import { existsSync, mkdirSync, symlinkSync, unlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const modules = new URL('../../node_modules/', import.meta.url)

/**
 * Path of node_modules/.bin/node, linked where the link is missing; undefined where no Node is brought along.
 * @returns {string | undefined}
 */
export function localNode() {
  const target = `node-${process.platform}-${process.arch}/bin/node`
  if (!existsSync(new URL(target, modules))) return undefined
  const link = fileURLToPath(new URL('.bin/node', modules))
  if (!existsSync(link)) {
    mkdirSync(new URL('.bin/', modules), { recursive: true })
    removeDangling(link)
    symlinkSync(`../${target}`, link)
  }
  return link
}

/** @param {string} link */
function removeDangling(link) {
  try {
    unlinkSync(link)
  } catch {
    // There was none.
  }
}
