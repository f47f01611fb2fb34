package main

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"strings"
)

// list returns the lines of a module.
func list(dir string) ([]string, error) {
	all, err := packages(dir)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range all {
		exports[p.path] = p.export
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	l := &lister{}
	for _, p := range all {
		if !p.public() || p.export == "" {
			continue
		}
		l.pkg, err = from.Import(p.path)
		if err != nil {
			return nil, err
		}
		for _, name := range l.pkg.Scope().Names() {
			if token.IsExported(name) {
				l.object(l.pkg.Scope().Lookup(name))
			}
		}
	}
	return l.lines, nil
}

// lister collects the lines of a package.
type lister struct {
	pkg   *types.Package
	lines []string
}

func (l *lister) add(kind, symbol, format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf("%s %s %s %s", l.pkg.Path(), kind, symbol, fmt.Sprintf(format, args...)))
}

// text prints a type without the names of parameters, which are no part of it.
func (l *lister) text(t types.Type) string {
	return types.TypeString(unnamed(t), types.RelativeTo(l.pkg))
}

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		l.add("const", o.Name(), "%s = %s", l.text(o.Type()), o.Val().ExactString())
	case *types.Var:
		l.add("var", o.Name(), "%s", l.text(o.Type()))
	case *types.Func:
		l.add("func", o.Name(), "%s%s", l.text(o.Type()), l.params(o.Signature().TypeParams()))
	case *types.TypeName:
		l.typeName(o)
	}
}

func (l *lister) typeName(o *types.TypeName) {
	named, ok := o.Type().(*types.Named)
	if o.IsAlias() || !ok {
		l.add("type", o.Name(), "= %s", l.text(types.Unalias(o.Type())))
		return
	}
	of := l.params(named.TypeParams())
	switch u := named.Underlying().(type) {
	case *types.Struct:
		l.add("type", o.Name(), "struct%s comparable=%t", of, types.Comparable(u))
		for f := range u.Fields() {
			if f.Exported() {
				l.add("field", o.Name()+"."+f.Name(), "%s embedded=%t", l.text(f.Type()), f.Embedded())
			}
		}
	case *types.Interface:
		l.interfaceType(o.Name(), of, u)
		return
	default:
		l.add("type", o.Name(), "%s%s", l.text(u), of)
	}
	l.methods(named)
}

func (l *lister) params(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var params []string
	for p := range list.TypeParams() {
		params = append(params, p.Obj().Name()+" "+l.text(p.Constraint()))
	}
	return " [" + strings.Join(params, ", ") + "]"
}

// interfaceType lists an interface. One with an unexported method is "sealed": users cannot implement it.
func (l *lister) interfaceType(name, of string, u *types.Interface) {
	kind, method := "interface", "demand"
	for m := range u.Methods() {
		if !m.Exported() {
			kind, method = "sealed", "method"
		}
	}
	l.add("type", name, "%s%s", kind, of)
	for m := range u.Methods() {
		if m.Exported() {
			l.add(method, name+"."+m.Name(), "%s", l.text(m.Type()))
		}
	}
}

// methods lists those of a type and of its pointer, the promoted ones included.
func (l *lister) methods(named *types.Named) {
	of := types.NewMethodSet(named)
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if !m.Obj().Exported() {
			continue
		}
		star := "(*)"
		if of.Lookup(m.Obj().Pkg(), m.Obj().Name()) != nil {
			star = "()"
		}
		l.add("method", named.Obj().Name()+"."+m.Obj().Name(), "%s %s", star, l.text(m.Type()))
	}
}

// unnamed removes the names of parameters and results.
func unnamed(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, tuple(t.Params()), tuple(t.Results()), t.Variadic())
	case *types.Pointer:
		return types.NewPointer(unnamed(t.Elem()))
	case *types.Slice:
		return types.NewSlice(unnamed(t.Elem()))
	case *types.Array:
		return types.NewArray(unnamed(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(unnamed(t.Key()), unnamed(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), unnamed(t.Elem()))
	}
	return t
}

func tuple(t *types.Tuple) *types.Tuple {
	var vars []*types.Var
	for v := range t.Variables() {
		vars = append(vars, types.NewParam(token.NoPos, v.Pkg(), "", unnamed(v.Type())))
	}
	return types.NewTuple(vars...)
}
