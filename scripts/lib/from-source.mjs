// Lets plain `node` run the workspaces from their sources: importing this file adds the `source` export
// condition when one of our own packages is imported by name. Other packages keep their published entry, also
// those that happen to name a `source` of their own. Only a clone uses this; published packages carry no
// sources.
import { registerHooks } from 'node:module'

const ownPackage = /^(?:@belfry\/|belfry(?:\/|$))/

registerHooks({
  resolve(specifier, context, nextResolve) {
    if (!ownPackage.test(specifier)) return nextResolve(specifier, context)
    return nextResolve(specifier, { ...context, conditions: ['source', ...context.conditions] })
  },
})
