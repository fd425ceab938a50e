// The root's postinstall: makes the Node 24 of the optional dependencies the one that npm scripts run under.
// Where install scripts are switched off, scripts/run.mjs does the same at the first script.
import { localNode } from './lib/local-node.mjs'

localNode()
